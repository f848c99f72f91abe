//! One interface that cannot be hooked.

use super::agent::Agent;
use super::node::{Node, run, tc};

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn an_interface_that_cannot_be_hooked_stays_open_until_it_can_and_the_agent_goes_on() {
    let node = Node::new();
    run("ip", &["link", "add", "pod2", "type", "veth", "peer", "name", "x"]);
    tc("qdisc add dev pod2 ingress");
    let mut agent = Agent::start(&node, &["--mode", "enforce", "--hooks", "clsact", "--clsact-delay", "0"]);
    let refused = agent.wait_for("pod2", |at| at.error.is_some());
    let error = refused.error.unwrap();
    assert!(error.contains("tc qdisc replace dev NAME clsact"), "{error}");
    assert!(!refused.attached);
    agent.wait_for("pod", |at| at.attached);
    run("ip", &["link", "add", "pod3", "type", "veth", "peer", "name", "y"]);
    agent.wait_for("pod3", |at| at.attached);
    tc("qdisc del dev pod2 ingress");
    agent.wait_for("pod2", |at| at.attached && at.error.is_none());
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn an_agent_that_can_hook_no_interface_refuses_to_enforce_with_the_reason() {
    let node = Node::new();
    tc("qdisc add dev pod ingress");
    let said = Agent::start(&node, &["--mode", "enforce", "--hooks", "clsact"]).complaint();
    assert!(said.contains("no interface can be hooked"), "{said}");
    assert!(said.contains("tc qdisc replace dev NAME clsact"), "{said}");
}
