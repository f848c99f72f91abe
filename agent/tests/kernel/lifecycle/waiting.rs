//! Interfaces that appear under an agent with clsact hooks are left to the CNI for a while.

use super::agent::Agent;
use super::node::{Node, run, tc};
use std::time::{Duration, Instant};

const DELAY: Duration = Duration::from_secs(3);

fn add(name: &str) {
    run("ip", &["link", "add", name, "type", "veth", "peer", "name", &format!("x{name}")]);
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_new_interface_takes_an_ingress_qdisc_within_the_delay_and_has_hooks_after_it_otherwise() {
    let node = Node::new();
    let delay = DELAY.as_secs().to_string();
    let mut agent = Agent::start(&node, &["--hooks", "clsact", "--clsact-delay", &delay]);
    // This one was there before the agent.
    agent.wait_for("pod", |at| at.attached);
    let made = Instant::now();
    add("pod-cni");
    add("pod-free");
    let waiting = agent.wait_for("pod-cni", |at| at.waiting);
    assert!(!waiting.attached && waiting.error.is_none(), "{waiting:?}");
    std::thread::sleep(Duration::from_secs(1).saturating_sub(made.elapsed()));
    tc("qdisc add dev pod-cni ingress");
    let hooked = agent.wait_for("pod-free", |at| at.attached);
    assert!(made.elapsed() >= DELAY, "hooked after {:?}", made.elapsed());
    assert!(!hooked.waiting);
    let refused = agent.wait_for("pod-cni", |at| at.error.is_some());
    let error = refused.error.unwrap();
    assert!(!refused.waiting && error.contains("ingress qdisc"), "{error}");
    assert!(tc("qdisc show dev pod-cni").contains("qdisc ingress"));
}
