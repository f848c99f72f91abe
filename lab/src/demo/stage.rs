//! Where the demo plays: the cluster, the agent, and what happens to them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use epguard_common::Mode;

use super::CALLS;
use super::act::{Act, reports};
use super::calls::{Callers, Tally, paced};
use super::screen::{Colour, Screen};
use crate::scenario::agent::Agent;
use crate::scenario::bpftool;
use crate::scenario::cluster::Cluster;
use crate::scenario::counters::Counters;
use crate::scenario::format::{Condition, PodEvent};
use crate::scenario::variant::Variant;
use crate::scenario::workdir::Workdir;
use crate::traffic::Client;

/// Pause between two calls of one client.
const PACE: Duration = Duration::from_millis(50);
/// The Service of A.
pub(super) const A: &str = "rd/sp";
/// The Service of B.
const B: &str = "rd2/s";

/// The demo's world.
pub struct Stage {
    // Dropped in this order: the agent goes before the network that it is attached to.
    agent: Agent,
    cluster: Cluster,
    _workdir: Workdir,
}

impl Stage {
    /// Makes the cluster and starts the agent in observe mode.
    pub fn set() -> Result<Self> {
        let cast = crate::scenario::parse(include_str!("cast.yaml"), "lab/src/demo/cast.yaml")?;
        let variant = Variant::all(&cast.runs)
            .into_iter()
            .next()
            .context("the demo has no variant")?;
        let workdir = Workdir::new()?;
        let mut cluster = Cluster::new(&cast, variant)?;
        let netns = &cluster.topology.node("node-a")?.netns;
        let mut agent = Agent::start(netns, &workdir, cluster.kubeconfig(), &cast.agent.options())?;
        for pod in ["finished", "running", "customer"] {
            cluster.pod_event(pod, PodEvent::Starts)?;
        }
        cluster.set_slice(
            A,
            &[
                ("finished".into(), Condition::Ready),
                ("running".into(), Condition::Ready),
            ]
            .into(),
        )?;
        cluster.sync_proxy()?;
        agent.catch_up(&cluster.store, &cluster.links())?;
        Ok(Self {
            agent,
            cluster,
            _workdir: workdir,
        })
    }

    /// Names A's Service and its pods.
    pub fn introduce_a(&self, screen: Screen) -> Result<()> {
        let vip = self.cluster.names.service(A)?.vip;
        screen.item("Service", format!("{A}, {vip}:80, publishNotReadyAddresses"));
        for pod in ["finished", "running"] {
            screen.item("Pod", self.pod(pod)?);
        }
        Ok(())
    }

    /// The Job's container exits, its slice follows; then the address is free and the phase terminal.
    pub fn finish_job(&mut self, screen: Screen) -> Result<()> {
        self.cluster.pod_event("finished", PodEvent::Exits)?;
        let listed = [
            ("finished".into(), Condition::Published),
            ("running".into(), Condition::Ready),
        ];
        self.cluster.set_slice(A, &listed.into())?;
        self.cluster.pod_event("finished", PodEvent::Succeeds)?;
        self.cluster.sync_proxy()?;
        screen.item(
            "Pod",
            format!(
                "{}, phase Succeeded, PodReadyToStartContainers False",
                self.pod("finished")?
            ),
        );
        screen.item(
            "EndpointSlice",
            format!(
                "{A} lists {} ready still: its controller does not look at the phase",
                self.x()?
            ),
        );
        Ok(())
    }

    /// B starts on A's address.
    pub fn start_b(&mut self, screen: Screen) -> Result<()> {
        self.cluster.pod_event("B", PodEvent::Starts)?;
        self.cluster
            .set_slice(B, &[("B".into(), Condition::Ready)].into())?;
        self.cluster.sync_proxy()?;
        self.agent.catch_up(&self.cluster.store, &self.cluster.links())?;
        screen.item("Pod", self.pod("B")?);
        screen.item(
            "Service",
            format!("{B}, {}:80", self.cluster.names.service(B)?.vip),
        );
        Ok(())
    }

    /// Only A's clients call.
    pub fn calls_to_a(&self, screen: Screen, calls: usize) -> Result<Tally> {
        let [tally] = paced(&[self.callers_of_a()?], calls, PACE, |[tally]| {
            screen.progress("A's clients", tally, calls, false);
        });
        screen.progress("A's clients", &tally, calls, true);
        Ok(tally)
    }

    /// Clients of A and of B call, in one mode.
    pub fn act(&self, screen: Screen, mode: Mode) -> Result<Act> {
        self.agent.set_mode(mode)?;
        let before = Counters::read(self.agent.pin_dir())?;
        let callers = [self.callers_of_a()?, self.callers_of_b()?];
        let [to_a, to_b] = paced(&callers, CALLS, PACE, |[to_a, _]| {
            screen.progress("A's clients", to_a, CALLS, false);
        });
        screen.progress("A's clients", &to_a, CALLS, true);
        let notice = if to_b.right == to_b.calls {
            Colour::Green
        } else {
            Colour::Red
        };
        let answers = format!(
            "{} of {} calls answered by B, the slowest in {:.1?}",
            to_b.right, to_b.calls, to_b.slowest
        );
        screen.item("B's clients", screen.paint(notice, answers));
        let counted = Counters::read(self.agent.pin_dir())?.since(&before);
        let affected = if mode == Mode::Enforce {
            &to_a.unanswered
        } else {
            &to_a.wrong
        };
        let reports = reports(&self.agent, mode, affected);
        let unreported = reports.iter().filter(|report| report.is_none()).count();
        if let Some(report) = reports.into_iter().flatten().next() {
            let said = report
                .split_once("epguard::report: ")
                .map_or(&*report, |(_, said)| said);
            let (what, whose) = said.split_at(said.find(" client=").unwrap_or(said.len()));
            screen.item("epguard's log", screen.paint(Colour::Yellow, what));
            screen.item("", screen.paint(Colour::Yellow, whose.trim()));
            screen.item(
                "",
                format!(
                    "... {} such reports, one for each of these calls",
                    affected.len() - unreported
                ),
            );
        }
        Ok(Act {
            to_a,
            to_b,
            counted,
            unreported,
        })
    }

    /// What epguard shows with names, then the four maps as anybody sees them.
    pub fn dump(&self, screen: Screen) -> Result<()> {
        println!("\n{}", screen.paint(Colour::Bold, "# epguard dump"));
        println!("{}", self.agent.dump_table()?.trim_end());
        for pod in ["finished", "running", "B"] {
            screen.item(
                "UID",
                format!("{} {}", self.cluster.names.pod(pod)?.uid, self.pod(pod)?),
            );
        }
        for map in ["OWNERS", "SUSPECTS", "SERVICES", "DENIED"] {
            println!(
                "\n{}",
                screen.paint(
                    Colour::Bold,
                    format!(
                        "# bpftool map dump pinned {}",
                        bpftool::path(self.agent.pin_dir(), map).display()
                    )
                )
            );
            println!("{}", bpftool::text(self.agent.pin_dir(), map)?.trim_end());
        }
        Ok(())
    }

    fn callers_of_a(&self) -> Result<Callers<'static>> {
        self.callers("client", A, &["finished", "running"])
    }

    fn callers_of_b(&self) -> Result<Callers<'static>> {
        self.callers("customer", B, &["B"])
    }

    fn callers(
        &self,
        from: &str,
        service: &str,
        rightful: &'static [&'static str],
    ) -> Result<Callers<'static>> {
        let to = SocketAddr::new(self.cluster.names.service(service)?.vip, 80);
        Ok(Callers {
            client: Client::new(self.cluster.topology.netns(from)?),
            to,
            rightful,
        })
    }

    fn pod(&self, alias: &str) -> Result<String> {
        let pod = self.cluster.names.pod(alias)?;
        Ok(format!("{}/{}, {}", pod.namespace, pod.name, pod.ip))
    }

    fn x(&self) -> Result<String> {
        Ok(self.cluster.names.pod("finished")?.ip.to_string())
    }
}
