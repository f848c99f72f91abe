//! The whole process and XDP: `pod` carries the default route here, so it is an uplink.

use super::agent::Agent;
use super::*;
use aya::programs::{Xdp as Program, XdpMode};
use nix::libc;

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn the_next_agent_takes_over_the_links_of_a_killed_or_stopped_one_and_detach_on_exit_removes_everything()
 {
    let node = uplink();
    let mut ids = Vec::new();
    for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGTERM] {
        let mut agent = Agent::start(&node, &["--xdp", "driver"]);
        let hooked = agent.wait_for("pod", |at| {
            at.xdp.as_deref() == Some("driver") && at.attached
        });
        assert_eq!((hooked.kernel_path.as_str(), hooked.position), ("tcx", 1));
        agent.end(signal);
        ids.push([node.pin(Hook::Egress), node.xdp_pin()].map(|pin| link(&pin).0));
    }
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{ids:?}");
    for hooks in ["tcx", "clsact"] {
        let mut agent = Agent::start(
            &node,
            &["--xdp", "driver", "--detach-on-exit", "--hooks", hooks],
        );
        let hooked = agent.wait_for("pod", |at| at.xdp.is_some() && at.attached);
        assert_eq!(hooked.kernel_path, hooks);
        agent.end(libc::SIGTERM);
        assert!(!node.pins().exists() && !attached());
        assert!(!tc("qdisc show dev pod").contains("clsact"));
    }
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_running_agent_attaches_xdp_again_and_detaches_it_with_the_default_route() {
    let node = uplink();
    let mut agent = Agent::start(&node, &["--xdp", "driver"]);
    agent.wait_for("pod", |at| at.xdp.is_some());
    let severed = link(&node.xdp_pin()).0;
    run("bpftool", &["link", "detach", "id", &severed.to_string()]);
    until("not attached again", attached);
    ip("route del default dev pod");
    agent.wait_for("pod", |at| at.xdp.is_none());
    until("still attached", || !attached());
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn where_xdp_is_required_a_foreign_program_ends_the_agent_with_the_reason() {
    let node = uplink();
    let mut other = node.load(Hooks::Auto);
    let program: &mut Program = other
        .ebpf
        .program_mut("epguard_xdp")
        .unwrap()
        .try_into()
        .unwrap();
    program.load().unwrap();
    program.attach("pod", XdpMode::Driver).unwrap();
    let said = Agent::start(&node, &["--xdp", "driver"]).complaint();
    let reason = "cannot attach XDP to interface pod, which --xdp requires: XDP: program ";
    assert!(said.contains(reason), "{said}");
    assert!(attached(), "theirs went");
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn where_xdp_is_optional_the_status_has_the_reason_why_it_is_missing_and_by_default_it_is_not_missing()
 {
    for (options, is_missing) in [(&["--xdp", "auto"][..], true), (&[], false)] {
        let node = uplink();
        let mut agent = Agent::start(&node, &[&["--mode", "enforce"], options].concat());
        let shown = agent.wait_for("pod", |at| {
            at.attached && at.role == "uplink" && at.xdp_error.is_none() != is_missing
        });
        assert!(
            shown
                .xdp_error
                .is_none_or(|error| error.contains("gains little on a veth")),
            "{options:?}"
        );
        assert!(shown.xdp.is_none() && !attached(), "{options:?}");
    }
}

fn uplink() -> Node {
    let node = Node::new();
    ip("route add default dev pod");
    node
}

fn attached() -> bool {
    shown().contains("prog/xdp")
}
