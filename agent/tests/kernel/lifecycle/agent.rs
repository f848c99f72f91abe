//! The whole process: how it ends, and what the next one finds.

use super::*;
use crate::UNREACHABLE;
use crate::launcher::{AgentProcess, AgentSetup};
use aya::programs::{SchedClassifier, TcAttachType};
use epguard::shared::status::{self, Attachment, SocketLb, Status};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_running_agent_hooks_renamed_and_recreated_interfaces_and_drops_removed_ones() {
    let node = Node::new();
    let mut agent = Agent::start(&node, &[]);
    agent.attached();
    let old = ifindex("pod");
    let before = link(&node.pin(Hook::Egress));
    ip("link set pod down");
    ip("link set pod name pod7");
    let attached = agent.wait_for("pod7", |at| at.attached);
    let pin = node.pins().join(format!("v3/links/{old}-to"));
    assert_eq!((attached.ifindex, link(&pin)), (old, before));
    ip("link del pod7");
    ip("link add pod7 type veth peer name x");
    let made = Instant::now();
    until("not hooked again", || {
        agent.is_attached("pod7", ifindex("pod7"))
    });
    println!("hooked {:?} after `ip link add` ended", made.elapsed());
    until("the pin of an interface that is gone stays", || {
        !pin.exists()
    });
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_running_agent_attaches_again_after_a_foreign_detach() {
    let node = Node::new();
    let mut agent = Agent::start(&node, &[]);
    agent.attached();
    let (severed, _) = link(&node.pin(Hook::Egress));
    run("bpftool", &["link", "detach", "id", &severed.to_string()]);
    let programs = || {
        let listed = SchedClassifier::query_tcx("pod", TcAttachType::Egress);
        listed.unwrap().1.len()
    };
    assert_eq!(programs(), 0);
    until("not attached again", || programs() > 0);
}

/// An agent that no API server talks to: hooks come without one.
pub struct Agent {
    process: AgentProcess,
    run_dir: PathBuf,
}

impl Agent {
    pub fn start(node: &Node, options: &[&str]) -> Self {
        let run_dir = node.run_dir();
        std::fs::create_dir_all(&run_dir).unwrap();
        let setup = AgentSetup {
            node: "n",
            kubeconfig: UNREACHABLE,
            run_dir: &run_dir,
            pin_dir: &node.pins(),
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_epguard"));
        command.args(setup.arguments().unwrap());
        command.args(["--pod-interfaces", "pod*"]).args(options);
        Self {
            process: AgentProcess::start(command, &run_dir).unwrap(),
            run_dir,
        }
    }

    fn attached(&mut self) -> Attachment {
        self.wait_for("pod", |at| at.attached)
    }

    /// Waits until the status shows the interface so.
    pub fn wait_for(&mut self, name: &str, so: impl Fn(&Attachment) -> bool) -> Attachment {
        let found = |status: &Status| {
            let mut interfaces = status.interfaces.iter();
            interfaces.find(|at| at.name == name && so(at)).cloned()
        };
        let missing = |status: &Status| {
            found(status)
                .is_none()
                .then(|| format!("{:?}", status.interfaces))
        };
        let status = self.process.until("has not hooked it so", missing).unwrap();
        found(&status).unwrap()
    }

    /// Waits until the status shows the socket load balancer so.
    pub fn wait_for_lb(&mut self, so: impl Fn(&SocketLb) -> bool) {
        let missing = |status: &Status| {
            let lb = &status.socket_lb;
            (!so(lb)).then(|| format!("{lb:?}"))
        };
        self.process.until("has not shown it so", missing).unwrap();
    }

    fn is_attached(&self, name: &str, ifindex: u32) -> bool {
        let status = status::current(&self.run_dir).unwrap_or_default();
        status
            .interfaces
            .iter()
            .any(|at| at.name == name && at.ifindex == ifindex && at.attached)
    }

    pub fn end(self, signal: i32) {
        self.process.end(signal).unwrap();
    }

    /// What it says at its end, which comes by itself and is no success.
    pub fn complaint(mut self) -> String {
        assert!(!self.process.await_end().unwrap().success());
        self.process.log()
    }
}
