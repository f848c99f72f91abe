//! The real agent as a process on node-a.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use aya::maps::{Array, Map, MapData};
use epguard::commands::drops;
use epguard::shared::clock::boot_ns;
use epguard::shared::drops::Dropped;
use epguard::shared::status::{self, Status};
use epguard_common::{Mode, View};
use serde_json::Value;

use super::options;
use super::process;
use super::workdir::Workdir;
use crate::api::{Kind, Store};
use crate::net::NetNs;

pub use super::options::AgentOptions;

/// How long the agent has for what takes it milliseconds.
const PATIENCE: Duration = Duration::from_mins(1);

/// An `epguard agent`; dropping it kills it.
#[derive(Debug)]
pub struct Agent {
    child: Option<Child>,
    program: PathBuf,
    arguments: Vec<OsString>,
    netns: NetNs,
    run_dir: PathBuf,
    pin_dir: PathBuf,
}

impl Agent {
    /// Starts the agent in `netns`. Returns once it is running, not once it has seen everything.
    pub fn start(
        netns: &NetNs,
        workdir: &Workdir,
        kubeconfig: &str,
        options: &AgentOptions<'_>,
    ) -> Result<Self> {
        let run_dir = workdir.path().to_owned();
        let pin_dir = workdir.pins().join("epguard");
        let credentials = run_dir.join("kubeconfig");
        fs::write(&credentials, kubeconfig)
            .with_context(|| format!("cannot write {}", credentials.display()))?;
        let mut agent = Self {
            child: None,
            program: process::epguard()?,
            arguments: options::arguments(options, &credentials, &pin_dir, &run_dir),
            netns: netns.clone(),
            run_dir,
            pin_dir,
        };
        agent.start_again()?;
        Ok(agent)
    }

    /// Starts it with the same command line, after [`Agent::kill`].
    pub fn start_again(&mut self) -> Result<()> {
        let path = self.run_dir.join("agent.log");
        let log = File::options().create(true).append(true).open(path);
        let log = log.context("cannot make the agent's log")?;
        let mut command = self.netns.command(&self.program);
        command.args(&self.arguments);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // SAFETY: prctl is async-signal-safe; the agent must not outlive a lab that is killed.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let child = command
            .spawn()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// Which binary [`Agent::start_again`] starts, and answers questions, from now on: that of another release.
    pub fn replace_program(&mut self, program: &Path) {
        program.clone_into(&mut self.program);
    }

    /// SIGKILL. What it attached and pinned stays.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Whether it was started and not killed since.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Number of its process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Where the datapath is pinned.
    #[must_use]
    pub fn pin_dir(&self) -> &Path {
        &self.pin_dir
    }

    /// Waits until everything in the store has become map contents and every link named carries its hooks.
    pub fn catch_up(&mut self, store: &Store, links: &[&str]) -> Result<Status> {
        let kinds = [
            Kind::Pod,
            Kind::EndpointSlice,
            Kind::Service,
            Kind::Node,
            Kind::Namespace,
        ];
        let wanted: Vec<(&str, u64)> = kinds
            .map(|kind| (kind.plural(), store.resource_version(kind)))
            .into();
        self.until("did not catch up", |status| missing(status, &wanted, links))
    }

    /// Waits until the lease in the kernel runs, or is over, whether or not the agent lives. An answer that was held up
    /// may renew it for some milliseconds only: one that runs has a while to go.
    pub fn await_lease(&self, held: bool) -> Result<()> {
        const A_WHILE_NS: u64 = 1_000_000_000;
        let deadline = Instant::now() + PATIENCE;
        let to_go = if held { A_WHILE_NS } else { 0 };
        while held != (self.lease_deadline_ns()? > boot_ns() + to_go) {
            ensure!(
                Instant::now() < deadline,
                "the lease is not {} after {PATIENCE:?}",
                if held { "held" } else { "over" }
            );
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn lease_deadline_ns(&self) -> Result<u64> {
        let view = Map::Array(epguard::kernel::maps::open(&self.pin_dir, "VIEW")?);
        let view: Array<MapData, View> = view.try_into().context("VIEW has another layout")?;
        Ok(view.get(&0, 0).context("cannot read VIEW")?.lease_deadline_ns)
    }

    /// Waits until nothing is wrong with the status any more.
    fn until(&mut self, failing: &str, wrong: impl Fn(&Status) -> Option<String>) -> Result<Status> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = status::read(&self.run_dir);
            let missing = match &seen {
                Ok(status) => wrong(status),
                Err(error) => Some(format!("{error:#}")),
            };
            let Some(missing) = missing else { return seen };
            let Some(child) = &mut self.child else {
                bail!("the agent was killed")
            };
            if let Some(exit) = child.try_wait().context("cannot look after the agent")? {
                let log = self.log();
                bail!(
                    "the agent ended: {exit}: {}",
                    log.lines().last().unwrap_or_default()
                );
            }
            ensure!(
                Instant::now() < deadline,
                "the agent {failing} in {PATIENCE:?}: {missing}"
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// `epguard mode`.
    pub fn set_mode(&self, mode: Mode) -> Result<()> {
        process::output(self.command("mode").arg(mode.as_str())).map(drop)
    }

    /// `epguard action`.
    pub fn set_action(&self, action: &str) -> Result<()> {
        process::output(self.command("action").arg(action)).map(drop)
    }

    /// `epguard` with these words, which name a verb that takes `--pin-dir`.
    pub fn run(&self, words: &str) -> Result<()> {
        let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
        let mut command = self.command(verb);
        process::output(command.args(rest.split_whitespace())).map(drop)
    }

    /// `epguard dump -o json`.
    pub fn dump(&self) -> Result<Value> {
        let text = process::output(
            self.command("dump")
                .args(["-o", "json", "--run-dir"])
                .arg(&self.run_dir),
        )?;
        serde_json::from_str(&text).context("`epguard dump -o json` wrote no JSON")
    }

    /// `epguard status -o json`. It ends with an error if the agent has a problem, with the same document.
    pub fn status_document(&self) -> Result<Value> {
        let mut command = self.netns.command(&self.program);
        command.args(["status", "-o", "json", "--run-dir"]);
        let output = command.arg(&self.run_dir).output();
        let output = output.context("cannot run `epguard status`")?;
        serde_json::from_slice(&output.stdout).with_context(|| {
            let cause = String::from_utf8_lossy(&output.stderr);
            format!("`epguard status -o json` wrote no JSON: {}", cause.trim())
        })
    }

    /// What `epguard drops` shows.
    pub fn drops(&self) -> Result<Vec<Dropped>> {
        drops::ask(&self.run_dir)
    }

    /// What the agent has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.run_dir.join("agent.log")).unwrap_or_default()
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = self.netns.command(&self.program);
        command.arg(verb).arg("--pin-dir").arg(&self.pin_dir);
        command
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What the agent has not caught up with.
fn missing(status: &Status, wanted: &[(&str, u64)], links: &[&str]) -> Option<String> {
    for (resource, version) in wanted {
        let applied = status.applied.get(*resource).copied().unwrap_or_default();
        if applied < *version {
            return Some(format!(
                "{resource} are applied up to {applied}, and the API is at {version}"
            ));
        }
    }
    let attached = |link: &&&str| {
        status
            .interfaces
            .iter()
            .any(|hooked| hooked.name == **link && hooked.attached)
    };
    match links.iter().find(|link| !attached(link)) {
        Some(link) => Some(format!("{link} has no hooks; there are {:?}", status.interfaces)),
        None if !status.synced => Some("it is not synced".into()),
        None if !status.breaker.is_empty() => Some(format!("it holds {:?}", status.breaker)),
        None if !status.services.is_empty() && status.lease_ms <= 0 => Some("its lease is over".into()),
        None => None,
    }
}
