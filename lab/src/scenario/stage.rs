//! Everything that a story is told on: a cluster and the agent on its node-a.

use anyhow::Result;

use super::agent::{Agent, AgentOptions};
use super::cluster::Cluster;
use super::counters::Counters;
use super::format::Scenario;
use super::variant::Variant;
use super::workdir::Workdir;

/// A cluster with an agent. Dropped in this order: the agent goes before the network that it is attached to.
#[derive(Debug)]
pub struct Stage {
    /// The agent on node-a.
    pub agent: Agent,
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
        let netns = &cluster.topology.node("node-a")?.netns;
        let options = AgentOptions {
            hooks,
            ..scenario.agent.options()
        };
        let agent = Agent::start(netns, &workdir, cluster.kubeconfig(), &options)?;
        Ok(Self {
            agent,
            cluster,
            workdir,
        })
    }

    /// Waits until the agent has applied everything that the API shows, and hooked every pod; not if it was killed, or
    /// the API is away.
    pub fn catch_up(&mut self) -> Result<()> {
        if !self.agent.is_running() || !self.cluster.api_is_back() {
            return Ok(());
        }
        self.agent
            .catch_up(&self.cluster.store, &self.cluster.links())
            .map(drop)
    }

    /// What the datapath has counted.
    pub fn counters(&self) -> Result<Counters> {
        Counters::read(self.agent.pin_dir())
    }
}
