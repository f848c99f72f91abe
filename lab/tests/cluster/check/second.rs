//! An agent on node-b, beside that of the stage on node-a.

use crate::node_b::NodeB;
use epguard_lab::agent::{AgentProcess, AgentSetup};
use epguard_lab::process;
use epguard_lab::scenario::stage::Stage;
use std::path::PathBuf;

/// Dropped in this order: the agent before the server that it watches.
pub(super) struct SecondNode {
    _agent: AgentProcess,
    pub(super) node: NodeB,
    /// Where the agent has its socket.
    pub(super) run_dir: PathBuf,
}

impl SecondNode {
    /// Starts an agent with this mode, and waits until it has seen all objects.
    pub(super) fn start(stage: &Stage, mode: &str) -> Self {
        let node = NodeB::new(&stage.cluster);
        let run_dir = stage.workdir.path.join("node-b");
        std::fs::create_dir(&run_dir).unwrap();
        let setup = AgentSetup {
            node: "node-b",
            kubeconfig: &node.api.kubeconfig(),
            run_dir: &run_dir,
            pin_dir: &stage.workdir.pins().join("node-b"),
        };
        let mut command = node.netns.command(process::epguard().unwrap());
        command
            .args(setup.arguments().unwrap())
            .args(["--mode", mode, "--clsact-delay", "0"]);
        let mut agent = AgentProcess::start(command, &run_dir).unwrap();
        agent
            .until("did not see all objects", |status| {
                (!status.synced).then(|| "not synced".into())
            })
            .unwrap();
        Self {
            _agent: agent,
            node,
            run_dir,
        }
    }
}
