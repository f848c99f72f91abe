//! Links: pinned, taken over, left behind. `agent` has those that are severed, and interfaces that
//! are renamed.

use super::*;
use aya::programs::links::PinnedLink;
use std::fs;

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn links_outlive_their_process_and_the_next_one_puts_its_programs_into_them() {
    let node = Node::new();
    drop(node.hooked(Hooks::Tcx));
    let before = Hook::ALL.map(|hook| link(&node.pin(hook)));
    let mut second = node.load(Hooks::Tcx);
    assert!(second.chain_if_hooked(ifindex("pod")).unwrap().is_none());
    second.hook(ifindex("pod"), "pod").unwrap();
    let after = Hook::ALL.map(|hook| link(&node.pin(hook)));
    for ((id, program), (same, other)) in before.into_iter().zip(after) {
        assert_eq!(id, same);
        assert_ne!(program, other);
    }
    let chain = second.chain_if_hooked(ifindex("pod")).unwrap().unwrap();
    assert_eq!((chain.position, chain.before.as_slice()), (1, &[][..]));
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn links_that_another_process_keeps_without_our_pins_still_count_as_hooks() {
    let node = Node::new();
    let mut datapath = node.hooked(Hooks::Tcx);
    let held = Hook::ALL.map(|hook| PinnedLink::from_pin(node.pin(hook)).unwrap());
    for hook in Hook::ALL {
        fs::remove_file(node.pin(hook)).unwrap();
    }
    assert_eq!(datapath.hook(ifindex("pod"), "pod").unwrap().position, 1);
    drop(held);
    // The kernel frees a removed pin, and the link with it, a moment later.
    until("the links remain", || {
        datapath.chain_if_hooked(ifindex("pod")).unwrap().is_none()
    });
    datapath.hook(ifindex("pod"), "pod").unwrap();
    assert!(Hook::ALL.iter().all(|hook| node.pin(*hook).exists()));
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_removed_filter_or_qdisc_is_seen_and_made_again() {
    let node = Node::new();
    let mut datapath = node.hooked(Hooks::Clsact);
    for removal in [
        "filter del dev pod egress prio 1",
        "filter del dev pod ingress",
        "qdisc del dev pod clsact",
    ] {
        tc(removal);
        assert!(
            datapath.chain_if_hooked(ifindex("pod")).unwrap().is_none(),
            "{removal}"
        );
        let chain = datapath.hook(ifindex("pod"), "pod").unwrap();
        assert_eq!(chain.position, 1);
    }
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn an_interface_made_again_with_the_number_of_one_that_is_gone_or_left_the_namespace_is_hooked_anew()
 {
    for is_gone in [true, false] {
        let node = Node::new();
        let index = ifindex("pod");
        node.hooked(Hooks::Tcx);
        let (before, _) = link(&node.pin(Hook::Egress));
        if is_gone {
            ip("link del pod");
        } else {
            ip(&format!("link set pod netns {}", node.peer_netns()));
        }
        ip(&format!(
            "link add pod index {index} type veth peer name other"
        ));
        let mut datapath = node.load(Hooks::Tcx);
        assert_eq!(datapath.hook(index, "pod").unwrap().position, 1);
        assert!(datapath.chain_if_hooked(index).unwrap().is_some());
        assert_ne!(link(&node.pin(Hook::Egress)).0, before, "{is_gone}");
    }
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_change_of_the_kernel_path_removes_the_hooks_of_the_other() {
    let node = Node::new();
    for (hooks, links, filters) in [
        (Hooks::Tcx, true, 0),
        (Hooks::Clsact, false, 2),
        (Hooks::Tcx, true, 0),
    ] {
        let chain = node.load(hooks).hook(ifindex("pod"), "pod").unwrap();
        assert_eq!(chain.position, 1);
        assert_eq!(node.pin(Hook::Ingress).exists(), links);
        let shown = ["ingress", "egress"].map(|side| tc(&format!("filter show dev pod {side}")));
        assert_eq!(shown.concat().matches("direct-action").count(), filters);
        assert_eq!(tc("qdisc show dev pod").contains("clsact"), filters > 0);
    }
}
