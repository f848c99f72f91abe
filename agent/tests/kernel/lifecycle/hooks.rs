//! Who else is at the hooks, interfaces that cannot be hooked, and those that are left to the CNI
//! for a while.

use super::agent::Agent;
use super::*;
use aya::programs::tc::{NlOptions, TcAttachOptions, TcHandle};
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType};
use std::time::{Duration, Instant};

const DELAY: Duration = Duration::from_secs(3);

fn add(name: &str) {
    ip(&format!("link add {name} type veth peer name x{name}"));
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
    assert!(
        !refused.waiting && error.contains("ingress qdisc"),
        "{error}"
    );
    assert!(tc("qdisc show dev pod-cni").contains("qdisc ingress"));
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn an_interface_that_cannot_be_hooked_stays_open_until_it_can_and_the_agent_goes_on() {
    let node = Node::new();
    add("pod2");
    tc("qdisc add dev pod2 ingress");
    let mut agent = Agent::start(
        &node,
        &[
            "--mode",
            "enforce",
            "--hooks",
            "clsact",
            "--clsact-delay",
            "0",
        ],
    );
    let refused = agent.wait_for("pod2", |at| at.error.is_some());
    let error = refused.error.unwrap();
    assert!(error.contains("tc qdisc del dev IFACE ingress"), "{error}");
    assert!(!refused.attached);
    agent.wait_for("pod", |at| at.attached);
    add("pod3");
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
    assert!(said.contains("tc qdisc del dev IFACE ingress"), "{said}");
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_program_before_ours_is_named_and_one_after_ours_is_not() {
    let node = Node::new();
    let mut datapath = node.load(Hooks::Tcx);
    let chain = datapath.hook(ifindex("pod"), "pod").unwrap();
    assert_eq!((chain.position, chain.before.len()), (1, 0));
    let attach = |datapath: &mut _, side, order| {
        let order = TcAttachOptions::TcxOrder(order);
        foreign(datapath)
            .attach_with_options("pod", side, order)
            .unwrap();
    };
    let mut other = node.load(Hooks::Tcx);
    attach(&mut other, TcAttachType::Ingress, LinkOrder::last());
    let beside = Chain {
        at_ingress: vec!["tcx epguard_selftes".into()],
        ..chain
    };
    assert_eq!(
        datapath.chain_if_hooked(ifindex("pod")).unwrap().unwrap(),
        beside
    );
    assert_eq!(
        datapath.others_at_ingress(ifindex("pod")).unwrap(),
        beside.at_ingress
    );
    let mut another = node.load(Hooks::Tcx);
    attach(&mut another, TcAttachType::Egress, LinkOrder::first());
    let chain = datapath.chain_if_hooked(ifindex("pod")).unwrap().unwrap();
    assert_eq!(chain.position, 2);
    assert_is_theirs(&chain);
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn an_ingress_hook_comes_and_goes_as_it_is_wanted_and_the_egress_hook_stays() {
    for hooks in [Hooks::Tcx, Hooks::Clsact] {
        let node = Node::new();
        let pod = ifindex("pod");
        let mut datapath = node.load(hooks);
        datapath.want_ingress(false);
        assert!(!datapath.hook(pod, "pod").unwrap().ingress);
        assert!(datapath.chain_if_hooked(pod).unwrap().is_some());
        assert_eq!(at_ingress(hooks), [] as [String; 0], "{hooks}");
        let egress = at_egress(hooks);
        assert_eq!(egress.len(), 1, "{hooks}");
        datapath.want_ingress(true);
        assert!(
            datapath.chain_if_hooked(pod).unwrap().is_none(),
            "it is missing now"
        );
        let chain = datapath.hook(pod, "pod").unwrap();
        assert!(
            chain.ingress
                && chain.ingress_error.is_none()
                && datapath.chain_if_hooked(pod).unwrap().is_some()
        );
        assert_eq!(
            (at_ingress(hooks).len(), at_egress(hooks)),
            (1, egress),
            "{hooks}"
        );
        // An agent that needs none takes the hooks of an earlier one over.
        let mut next = node.load(hooks);
        next.want_ingress(false);
        assert!(!next.hook(pod, "pod").unwrap().ingress);
        assert_eq!(
            (at_ingress(hooks).len(), at_egress(hooks).len()),
            (0, 1),
            "{hooks}"
        );
    }
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn an_ingress_hook_that_cannot_be_attached_is_an_error_of_its_own() {
    let node = Node::new();
    let pod = ifindex("pod");
    let mut datapath = node.load(Hooks::Clsact);
    datapath.want_ingress(false);
    datapath.hook(pod, "pod").unwrap();
    let ours = NlOptions {
        priority: 1,
        handle: TcHandle::new(0x6570, 0x6701),
        classid: None,
    };
    let mut other = node.load(Hooks::Clsact);
    let there = TcAttachOptions::Netlink(ours);
    foreign(&mut other)
        .attach_with_options("pod", TcAttachType::Ingress, there)
        .unwrap();
    datapath.want_ingress(true);
    let chain = datapath.hook(pod, "pod").unwrap();
    let error = chain.ingress_error.unwrap();
    assert!(
        !chain.ingress && error.contains("belongs to another program"),
        "{error}"
    );
    assert!(
        datapath.chain_if_hooked(pod).unwrap().is_none(),
        "it is still missing"
    );
    tc("filter del dev pod ingress");
    let chain = datapath.hook(pod, "pod").unwrap();
    assert!(chain.ingress && chain.ingress_error.is_none());
}

/// The programs at a hook of `pod`, as the kernel lists them.
fn at_ingress(hooks: Hooks) -> Vec<String> {
    programs(hooks, TcAttachType::Ingress)
}

fn at_egress(hooks: Hooks) -> Vec<String> {
    programs(hooks, TcAttachType::Egress)
}

fn programs(hooks: Hooks, side: TcAttachType) -> Vec<String> {
    if hooks == Hooks::Tcx {
        let (_, programs) = SchedClassifier::query_tcx("pod", side).unwrap();
        return programs
            .iter()
            .map(|program| program.id().to_string())
            .collect();
    }
    let side = if side == TcAttachType::Ingress {
        "ingress"
    } else {
        "egress"
    };
    let shown = tc(&format!("filter show dev pod {side}"));
    shown
        .lines()
        .filter(|line| line.contains("epguard_"))
        .map(str::to_owned)
        .collect()
}

fn assert_is_theirs(chain: &Chain) {
    assert_eq!(chain.before, ["to: tcx epguard_selftes"]);
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn foreign_filters_run_after_tcx_and_tcx_programs_before_our_filters() {
    let node = Node::new();
    tc("qdisc add dev pod clsact");
    let mut other = node.load(Hooks::Tcx);
    let program = foreign(&mut other);
    program
        .attach_with_options("pod", TcAttachType::Ingress, filter(1))
        .unwrap();
    let order = TcAttachOptions::TcxOrder(LinkOrder::last());
    program
        .attach_with_options("pod", TcAttachType::Egress, order)
        .unwrap();
    let tcx = node.load(Hooks::Tcx).hook(ifindex("pod"), "pod").unwrap();
    assert_eq!((tcx.position, tcx.before.len()), (1, 0));
    // One is at the egress hook.
    assert_eq!(tcx.at_ingress.len(), 1);
    let clsact = node
        .load(Hooks::Clsact)
        .hook(ifindex("pod"), "pod")
        .unwrap();
    assert_is_theirs(&clsact);
    assert_eq!(clsact.position, 2);
}
