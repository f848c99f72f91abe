//! Everything that a story is told on: a cluster and the agent on its node-a.

use anyhow::{Context, Result};

use super::agent::{Agent, AgentOptions};
use super::carrier::await_carrier;
use super::cluster::Cluster;
use super::counters::Counters;
use super::format::{Action, First, Forbidden, NeighbourStep, PodEvent, Scenario};
use super::variant::Variant;
use super::workdir::Workdir;
use super::{beside, capture};
use crate::neighbour::Neighbour;

/// A cluster with an agent. Dropped in this order: the agent goes before the network that it is attached to.
#[derive(Debug)]
pub struct Stage {
    /// The agent on node-a.
    pub agent: Agent,
    /// The program beside it, if the story has one.
    pub neighbour: Option<Neighbour>,
    forbids: Vec<Forbidden>,
    /// Nodes, pods, API and proxy.
    pub cluster: Cluster,
    /// Where the agent has its maps, sockets and log.
    pub workdir: Workdir,
}

impl Stage {
    /// What the scenario has from the start, with `--hooks` of the agent if given. Needs root.
    pub fn new(scenario: &Scenario, variant: Variant, hooks: Option<&str>) -> Result<Self> {
        let workdir = Workdir::new()?;
        let cluster = Cluster::new(scenario, variant)?;
        let mut neighbour = beside::neighbour(scenario, variant, hooks, &cluster, &workdir.pins())?;
        let declared = scenario.neighbour.as_ref();
        let forbids = declared.map(|declared| declared.forbids.clone());
        let forbids = forbids.unwrap_or_default();
        let first = variant.first.or(declared.and_then(|declared| declared.first));
        let first = first.unwrap_or(First::Neighbour);
        if let (Some(neighbour), First::Neighbour) = (&mut neighbour, first) {
            beside::happen(neighbour, NeighbourStep::Starts, &forbids, &cluster)?;
        }
        let netns = &cluster.topology.node("node-a")?.netns;
        let action = variant.action.or(scenario.agent.action);
        if action == Some(Action::Capture) {
            capture::make(netns)?;
        }
        let options = AgentOptions {
            hooks,
            action: action.map(Action::flag),
            ..scenario.agent.options()
        };
        let agent = Agent::start(netns, &workdir, cluster.kubeconfig(), &options)?;
        let mut stage = Self {
            agent,
            neighbour,
            forbids,
            cluster,
            workdir,
        };
        if first == First::Epguard && stage.neighbour.is_some() {
            stage.catch_up()?;
            stage.neighbour(NeighbourStep::Starts)?;
        }
        Ok(stage)
    }

    /// Lets something happen to a pod. The neighbour hooks it before anything is sent there, as a CNI does.
    pub fn pod_event(&mut self, alias: &str, event: PodEvent) -> Result<()> {
        self.cluster.pod_event(alias, event)?;
        self.neighbour
            .as_mut()
            .map_or(Ok(()), |neighbour| beside::hook(neighbour, &self.cluster))
    }

    /// Lets something happen to the story's neighbour.
    pub fn neighbour(&mut self, step: NeighbourStep) -> Result<()> {
        let neighbour = self.neighbour.as_mut();
        let neighbour = neighbour.context("the story has no `neighbour`")?;
        beside::happen(neighbour, step, &self.forbids, &self.cluster)
    }

    /// Waits until the agent has applied everything that the API shows, hooked every pod, and leaves the neighbour's bits
    /// alone; not if it was killed, or the API is away. The neighbour hooks new pods.
    pub fn catch_up(&mut self) -> Result<()> {
        if let Some(neighbour) = &mut self.neighbour {
            beside::hook(neighbour, &self.cluster)?;
        }
        if !self.agent.is_running() || !self.cluster.api_is_back() {
            return Ok(());
        }
        self.agent.catch_up(&self.cluster.store, &self.cluster.links())?;
        let attached = self
            .neighbour
            .as_ref()
            .filter(|neighbour| neighbour.is_attached());
        match attached.and_then(|neighbour| neighbour.kind().harmless_carriers()) {
            Some(carriers) => await_carrier(&self.agent, carriers),
            None => Ok(()),
        }
    }

    /// What the datapath has counted.
    pub fn counters(&self) -> Result<Counters> {
        Counters::read(self.agent.pin_dir())
    }
}
