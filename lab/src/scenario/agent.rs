//! The real agent as a process on node-a.

use nix::libc;
use std::ffi::OsString;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aya::maps::{Array, MapData};
use epguard::commands::drops;
use epguard::kernel::maps::{self, KeyedMap};
use epguard::shared::clock::boot_ns;
use epguard::shared::drops::Dropped;
use epguard::shared::status::{self, Status};
use epguard_common::{Addr, Terminated, View};
use epguard_core::facts::Watched;
use serde_json::Value;

use crate::agent::{AgentProcess, AgentSetup};
use crate::api::Store;
use crate::net::NetNs;
use crate::process;
use crate::wait;
use crate::workdir::Workdir;

/// An `epguard agent` on a node of a cluster, which may be killed and started again. Dropping it
/// kills it.
#[derive(Debug)]
pub struct Agent {
    process: Option<AgentProcess>,
    program: PathBuf,
    arguments: Vec<OsString>,
    /// What it has when it is started, by their numbers: all, unless changed.
    pub capabilities: Vec<u32>,
    netns: NetNs,
    run_dir: PathBuf,
    /// Where the datapath is pinned.
    pub pin_dir: PathBuf,
}

impl Agent {
    /// One for the network namespace of node-a, not started yet, with these flags beside those of
    /// every agent. A flag without a value keeps the agent's default.
    pub fn prepare<const N: usize>(
        netns: &NetNs,
        workdir: &Workdir,
        kubeconfig: &str,
        flags: [(&str, Option<String>); N],
    ) -> Result<Self> {
        let run_dir = workdir.path.clone();
        let pin_dir = workdir.pins().join("epguard");
        let setup = AgentSetup {
            node: "node-a",
            kubeconfig,
            run_dir: &run_dir,
            pin_dir: &pin_dir,
        };
        let mut arguments = setup.arguments()?;
        let given = flags
            .into_iter()
            .filter_map(|(flag, value)| Some(format!("--{flag}={}", value?)));
        arguments.extend(given.map(OsString::from));
        let program = process::epguard()?;
        let netns = netns.clone();
        let capabilities = (0..=63).collect();
        Ok(Self {
            process: None,
            program,
            arguments,
            capabilities,
            netns,
            run_dir,
            pin_dir,
        })
    }

    /// Starts it, or starts it again with the same command line after [`Agent::kill`]. Returns once
    /// it is running, before it has seen all objects.
    pub fn start_again(&mut self) -> Result<()> {
        let mut command = self.netns.command(&self.program);
        command.args(&self.arguments);
        self.process = Some(AgentProcess::start_with(
            &self.capabilities,
            command,
            &self.run_dir,
        )?);
        Ok(())
    }

    /// Sends SIGKILL. Hooks and maps stay.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Sends SIGTERM and waits for its end, as a rollout does. Hooks and maps stay.
    pub fn terminate(&mut self) -> Result<()> {
        let process = self.process.take().context("the agent was killed")?;
        process.end(libc::SIGTERM).map(drop)
    }

    /// Number of its process; none before it was started, and after it was killed.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(AgentProcess::pid)
    }

    /// Waits until the maps reflect all objects in the store and every named link has its hooks.
    pub fn catch_up(&mut self, store: &Store, links: &[&str]) -> Result<Status> {
        let wanted = Watched::ALWAYS
            .into_iter()
            .map(|watched: Watched| {
                Ok((
                    watched,
                    store.resource_version(watched.to_string().parse()?),
                ))
            })
            .collect::<Result<Vec<_>>>()?;
        let process = self.process.as_mut().context("the agent was killed")?;
        process.until("did not catch up", |status| missing(status, &wanted, links))
    }

    /// Waits until the lease in the kernel runs, or is over, whether or not the agent lives. A late
    /// response of the API server may renew it for some milliseconds only: a running lease must
    /// have a second left.
    pub fn await_lease(&self, held: bool) -> Result<()> {
        const A_WHILE_NS: u64 = 1_000_000_000;
        let (to_go, wanted) = if held {
            (A_WHILE_NS, "held")
        } else {
            (0, "over")
        };
        wait::until(Duration::from_millis(10), || {
            let seen = self.view()?.lease_deadline_ns > boot_ns() + to_go;
            Ok((seen != held).then(|| format!("the lease is not {wanted}")))
        })
    }

    /// Whether the kernel judges packets by the connections of their sockets, so that a call that
    /// is dropped can wait.
    pub fn judges_by_socket(&self) -> Result<bool> {
        Ok(self.view()?.socket_lb == View::HOOKED)
    }

    /// Whether the programs look up the map of Cilium's with this name and id.
    pub fn reads(&self, name: &str, id: u32) -> bool {
        let id = format!("id={id}");
        let log = self.log();
        let mut lines = log.lines().filter(|line| line.contains(name));
        lines.any(|line| line.split_whitespace().any(|word| word == id))
    }

    /// Waits until TERMINATED has the address. The agent needs the node's routes for it, some time
    /// after the API shows that the pod is dead.
    pub fn await_orphan_ip(&self, address: IpAddr) -> Result<()> {
        let terminated = maps::open::<KeyedMap<Addr, Terminated>>(&self.pin_dir, "TERMINATED")?;
        wait::until(Duration::from_millis(5), || {
            let is_there = terminated
                .get(&address.into())
                .is_ok_and(|entry| entry.lifted_ns == 0);
            Ok((!is_there).then(|| format!("{address} is not in TERMINATED")))
        })
    }

    fn view(&self) -> Result<View> {
        let view: Array<MapData, View> = maps::open(&self.pin_dir, "VIEW")?;
        view.get(&0, 0).context("cannot read VIEW")
    }

    /// `epguard` with these words, a verb and its arguments. It must succeed.
    pub fn run(&self, words: &str) -> Result<()> {
        process::output(&mut self.command(words)).map(drop)
    }

    /// The standard output of `epguard` with these words, whatever its exit code: some verbs fail
    /// if they find something.
    pub fn output(&self, words: &str) -> Result<String> {
        let output = self
            .command(words)
            .output()
            .with_context(|| format!("cannot run epguard {words}"))?;
        ensure!(
            !output.stdout.is_empty(),
            "epguard {words} prints nothing: {}",
            process::cause(&output)
        );
        String::from_utf8(output.stdout).with_context(|| format!("epguard {words} prints no UTF-8"))
    }

    /// `epguard dump -o json`.
    pub fn dump(&self) -> Result<Value> {
        let text = process::output(&mut self.command("dump -o json"))?;
        serde_json::from_str(&text).context("`epguard dump -o json` wrote no JSON")
    }

    /// Its status now.
    pub fn status(&self) -> Result<Status> {
        status::current(&self.run_dir)
    }

    /// The rows of `epguard drops`.
    pub fn drops(&self) -> Result<Vec<Dropped>> {
        drops::ask_agent(&self.run_dir)
    }

    /// The agent's log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.run_dir.join("agent.log")).unwrap_or_default()
    }

    /// `epguard` with these words, and with the flags of the verb that name this agent's files.
    fn command(&self, words: &str) -> Command {
        let kubeconfig = self.run_dir.join("kubeconfig");
        let pins = ("--pin-dir", &self.pin_dir);
        let run = ("--run-dir", &self.run_dir);
        let files = match words.split(' ').next().unwrap_or_default() {
            "lint" => vec![("--kubeconfig", &kubeconfig)],
            "action" | "mode" => vec![pins],
            "audit" | "detach" | "dump" | "sysdump" => vec![pins, run],
            _ => vec![run],
        };
        let mut command = self.netns.command(&self.program);
        command.args(words.split_whitespace());
        for (flag, path) in files {
            command.arg(flag).arg(path);
        }
        command
    }
}

/// What the agent has not caught up with.
fn missing(status: &Status, wanted: &[(Watched, u64)], links: &[&str]) -> Option<String> {
    for (resource, version) in wanted {
        let applied = status.applied.get(resource).copied().unwrap_or_default();
        if applied < *version {
            return Some(format!(
                "{resource} are applied up to {applied}, and the API is at {version}"
            ));
        }
    }
    for link in links {
        let mut interfaces = status.interfaces.iter();
        if !interfaces.any(|hooked| hooked.name == *link && hooked.attached) {
            return Some(format!(
                "{link} has no hooks; there are {:?}",
                status.interfaces
            ));
        }
    }
    if !status.synced {
        return Some("it is not synced".into());
    }
    if status.redirect_waits {
        return Some("not every interface has the ingress hook".into());
    }
    if !status.breaker.is_empty() {
        return Some(format!("its breaker stops {:?}", status.breaker));
    }
    if !status.services.is_empty() && status.lease_ms <= 0 {
        return Some("its lease is over".into());
    }
    None
}
