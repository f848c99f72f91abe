//! The environment of a story: a cluster and the agent on its node-a.

use std::path::Path;
use std::thread;

use anyhow::{Context, Result, anyhow};
use epguard::kernel::datapath::has_tcx;
use serde_json::json;

use super::agent::Agent;
use super::balancer::Balancer;
use super::cluster::Cluster;
use super::format::{
    CgroupEvent, EventOf, First, Forbidden, NeighbourStep, PodEvent, Scenario, SocketLbStep,
    Writers,
};
use super::tell::How;
use super::variant::Variant;
use crate::agent::CAPABILITIES;
use crate::counters::Counters;
use crate::neighbour::{Neighbour, Plan};
use crate::workdir::Workdir;

/// A cluster with an agent. Dropped in this order: the agent goes before the network that it is
/// attached to.
pub struct Stage {
    /// The agent on node-a.
    pub agent: Agent,
    /// The program beside the agent, if the story has one.
    pub neighbour: Option<Neighbour>,
    pub(super) forbids: Vec<Forbidden>,
    /// Nodes, pods, API and proxy.
    pub cluster: Cluster,
    /// Directory of the agent's maps, sockets and log.
    pub workdir: Workdir,
}

impl Stage {
    /// Builds the scenario's start. Needs root.
    pub fn new(scenario: &Scenario, variant: Variant, how: &How) -> Result<Self> {
        let workdir = Workdir::new()?;
        let mut cluster = Cluster::new(scenario, variant)?;
        let netns = cluster.topology.node("node-a")?.netns.clone();
        let clsact = how.hooks.as_deref() == Some("clsact") || !has_tcx();
        let cilium_maps = workdir.pins().join("cilium");
        if variant.caller.has_socket_lb() || variant.caller.is_per_packet() {
            cluster.balancer = Some(Balancer::new(&cilium_maps, variant.caller, &netns, clsact)?);
        }
        let declared = scenario.neighbour.as_ref();
        let neighbour = declared.map(|declared| {
            let place = variant.place.unwrap_or(declared.place);
            let plan = Plan {
                kind: declared.kind,
                place,
                clsact,
            };
            Neighbour::new(plan, &netns, &workdir.pins().join("neighbour"))
        });
        let forbids = declared
            .map(|declared| declared.forbids.clone())
            .unwrap_or_default();
        let first = variant
            .first
            .or(declared.and_then(|declared| declared.first))
            .unwrap_or(First::Neighbour);
        let action = variant.action.or(scenario.agent.action);
        let flags = &scenario.agent;
        let retired = if flags.enforce_retired {
            "enforce"
        } else {
            "observe"
        };
        let shown = |path: &Path| path.display().to_string();
        let seconds = |seconds: u32| seconds.to_string();
        let flags = [
            ("mode", flags.mode.clone().or(Some("observe".into()))),
            ("reason-mode", Some(format!("retired-backend={retired}"))),
            ("xdp", flags.xdp.clone()),
            ("hooks", how.hooks.clone()),
            ("action", action.map(|action| action.to_string())),
            ("mode-policy", flags.mode_policy.clone()),
            // Stories wait for hooks, and no CNI plugin comes after the lab's.
            ("clsact-delay", Some("0".into())),
            ("lease", flags.lease.map(seconds)),
            ("max-view-age", flags.max_view_age.map(seconds)),
            (
                "cgroup",
                cluster
                    .balancer
                    .as_ref()
                    .map(|balancer| shown(&balancer.root.path)),
            ),
            ("cilium-maps", Some(shown(&cilium_maps))),
        ];
        let mut agent = Agent::prepare(&netns, &workdir, &cluster.api.kubeconfig(), flags)?;
        if how.least_privilege {
            agent.capabilities = CAPABILITIES.to_vec();
        }
        let mut stage = Self {
            agent,
            neighbour,
            forbids,
            cluster,
            workdir,
        };
        if first == First::Epguard {
            stage.start_agent(scenario)?;
            stage.catch_up()?;
        }
        if stage.neighbour.is_some() && first != First::Later {
            stage.neighbour(NeighbourStep::Starts)?;
        }
        if stage.cluster.balancer.is_some() {
            stage.socket_lb(SocketLbStep::Starts)?;
        }
        if first != First::Epguard {
            stage.start_agent(scenario)?;
        }
        Ok(stage)
    }

    /// Starts the agent, unless a step of the story does.
    fn start_agent(&mut self, scenario: &Scenario) -> Result<()> {
        if scenario.agent.later {
            Ok(())
        } else {
            self.agent.start_again()
        }
    }

    /// Makes an event happen to a pod. The neighbour hooks the pod before any packet is sent there,
    /// as a CNI does.
    pub fn pod_event(&mut self, alias: &str, event: PodEvent) -> Result<()> {
        self.cluster.pod_event(alias, event)?;
        self.hook_neighbour(false)
    }

    /// Makes an event happen to the load balancer.
    pub fn socket_lb(&mut self, step: SocketLbStep) -> Result<()> {
        let balancer = self.cluster.balancer.as_mut();
        let balancer =
            balancer.context("only callers at sockets and per packet have a load balancer")?;
        balancer.step(step)?;
        self.cluster.serve_pods()
    }

    /// Makes and removes cgroups of node-a.
    pub fn cgroups(&self, steps: &[EventOf<CgroupEvent>]) -> Result<()> {
        let balancer = self
            .cluster
            .balancer
            .as_ref()
            .context("only callers at sockets have cgroups")?;
        steps
            .iter()
            .try_for_each(|EventOf { name, event }| match event {
                CgroupEvent::Made => balancer.root.make(name).map(drop),
                CgroupEvent::Removed => balancer.root.remove(name),
            })
    }

    /// Lets two writers of CONFIG, the command line and the agent that follows its `ConfigMap`,
    /// write at once, each in its order, in all rounds. `map` is the `ConfigMap` of the agent's
    /// `--mode-policy`.
    pub fn write_at_once(&self, writers: &Writers, map: Option<&str>) -> Result<()> {
        let map = map.and_then(|map| map.split_once('/'));
        let (namespace, name) =
            map.context("`writers` needs `agent: {mode-policy: NAMESPACE/NAME}`")?;
        for _ in 0..writers.rounds {
            thread::scope(|scope| -> Result<()> {
                let commands = scope.spawn(|| {
                    writers
                        .commands
                        .iter()
                        .try_for_each(|words| self.agent.run(words))
                });
                for data in &writers.mode_policy {
                    let metadata = json!({"name": name, "namespace": namespace});
                    let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data});
                    self.cluster.apply(&[object])?;
                }
                commands
                    .join()
                    .map_err(|_| anyhow!("a command's thread panicked"))?
            })?;
        }
        Ok(())
    }

    /// Waits until the agent has applied all objects of the API and hooked every pod. Returns at
    /// once if the agent was killed or the API is away. The neighbour hooks new pods.
    pub fn catch_up(&mut self) -> Result<()> {
        self.hook_neighbour(false)?;
        if self.agent.pid().is_none() || !self.cluster.api_is_back {
            return Ok(());
        }
        self.agent
            .catch_up(&self.cluster.store, &self.cluster.links())?;
        if let Some(balancer) = &self.cluster.balancer {
            balancer.await_hooks(&self.agent)?;
        }
        self.hook_neighbour(true)
    }

    /// Reads the datapath's counters.
    pub fn counters(&self) -> Result<Counters> {
        Counters::read(&self.agent.pin_dir)
    }
}
