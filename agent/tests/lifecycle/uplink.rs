//! The whole process and XDP: `pod` carries the default route here, so it is an uplink.

use crate::agent::Agent;
use crate::node::{Node, ifindex, ip, link, run};
use aya::programs::{Xdp as Program, XdpMode};
use epguard::kernel::datapath::Hooks;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn an_agent_takes_the_xdp_link_over_and_detaches_it_when_told_to() {
    let node = uplink();
    let mut ids = Vec::new();
    for signal in [libc::SIGKILL, libc::SIGTERM] {
        let agent = Agent::start(&node, &["--xdp", "driver"]);
        agent.wait_for("pod", |at| at.xdp.as_deref() == Some("driver"));
        agent.end(signal);
        ids.push(link(&pin(&node)).0);
    }
    assert_eq!(ids[0], ids[1]);
    let agent = Agent::start(&node, &["--xdp", "driver", "--detach-on-exit"]);
    agent.wait_for("pod", |at| at.xdp.is_some());
    agent.end(libc::SIGTERM);
    assert!(!node.pins().exists() && !attached());
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_running_agent_attaches_xdp_again_and_lets_it_go_with_the_default_route() {
    let node = uplink();
    let agent = Agent::start(&node, &["--xdp", "driver"]);
    agent.wait_for("pod", |at| at.xdp.is_some());
    let severed = link(&pin(&node)).0;
    run("bpftool", &["link", "detach", "id", &severed.to_string()]);
    until("not attached again", attached);
    ip(&["route del default dev pod".into()]);
    agent.wait_for("pod", |at| at.xdp.is_none());
    until("still attached", || !attached());
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn where_xdp_is_demanded_another_program_ends_the_agent_which_says_why() {
    let node = uplink();
    let mut other = node.load(Hooks::Auto);
    let program: &mut Program = other.ebpf.program_mut("epguard_xdp").unwrap().try_into().unwrap();
    program.load().unwrap();
    program.attach("pod", XdpMode::Driver).unwrap();
    let said = Agent::start(&node, &["--xdp", "driver"]).complaint();
    let reason = "cannot attach XDP to interface pod, which --xdp demands: XDP: the program epguard_xdp (id ";
    assert!(said.contains(reason), "{said}");
    assert!(attached(), "theirs went");
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn where_xdp_is_not_demanded_the_status_says_why_tc_is_alone() {
    let node = uplink();
    let agent = Agent::start(&node, &["--mode", "enforce", "--xdp", "auto"]);
    let shown = agent.wait_for("pod", |at| at.xdp_error.is_some());
    assert!(shown.xdp_error.unwrap().contains("gains little on a veth"));
    assert_eq!((shown.attached, shown.xdp), (true, None));
    assert!(!attached());
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn unless_it_is_asked_for_no_uplink_has_xdp_and_none_is_missed() {
    let node = uplink();
    let agent = Agent::start(&node, &["--mode", "enforce"]);
    let shown = agent.wait_for("pod", |at| at.attached && at.role == "uplink");
    assert_eq!((shown.xdp, shown.xdp_error), (None, None));
    assert!(!attached());
}

fn uplink() -> Node {
    let node = Node::new();
    ip(&["route add default dev pod".into()]);
    node
}

fn pin(node: &Node) -> PathBuf {
    node.pins().join(format!("v2/links/{}-xdp", ifindex("pod")))
}

fn attached() -> bool {
    run("ip", &["link", "show", "dev", "pod"]).contains("prog/xdp")
}

fn until(failing: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !done() {
        assert!(Instant::now() < deadline, "{failing}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
