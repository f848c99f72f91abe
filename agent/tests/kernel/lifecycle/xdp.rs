//! XDP at an uplink: attached, taken over, refused, removed.

use super::detach::detach;
use super::orphan_ip::{denied_of, vacate};
use super::*;
use aya::programs::{Xdp as Program, XdpMode};

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_packet_to_an_orphan_ip_is_dropped_by_xdp_and_counted_once() {
    let node = Node::new();
    let mut datapath = node.load(Hooks::Auto).with_xdp(Xdp::Driver).unwrap();
    let _writer = vacate(&node, &mut datapath);
    assert!(datapath.hook_xdp(ifindex("pod"), "pod").unwrap());
    assert_eq!(denied_of(&node, 100), 100, "without TC");
    datapath.hook(ifindex("pod"), "pod").unwrap();
    assert_eq!(denied_of(&node, 100), 100, "with TC behind it");
    datapath.unhook(ifindex("pod"));
    datapath.detach_leaving().unwrap();
    assert_eq!(denied_of(&node, 100), 0, "detached");
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn the_xdp_link_outlives_its_process_and_the_next_one_puts_its_program_into_it() {
    let node = Node::new();
    let ids = [(); 3].map(|()| {
        attach(&node, Xdp::Driver);
        (link(&node.xdp_pin()), shown())
    });
    assert!(
        ids.windows(2).all(|two| two[0].0.0 == two[1].0.0),
        "{ids:?}"
    );
    assert!(
        ids.windows(2).all(|two| two[0].0.1 != two[1].0.1),
        "{ids:?}"
    );
    assert!(
        ids.iter()
            .all(|((_, program), shown)| shown.contains(&format!("prog/xdp id {program} "))),
        "{ids:?}"
    );
    let mut datapath = attach(&node, Xdp::Off);
    datapath.hook(ifindex("pod"), "pod").unwrap();
    assert!(!node.xdp_pin().exists() && !shown().contains("xdp"));
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_foreign_xdp_program_stays_attached_and_is_named_until_it_goes() {
    let node = Node::new();
    for theirs in [XdpMode::Driver, XdpMode::Skb] {
        let mut other = node.load(Hooks::Auto);
        let program = foreign(&mut other);
        let id = program.attach("pod", theirs).unwrap();
        let before = shown();
        let mut datapath = node.load(Hooks::Auto).with_xdp(Xdp::Driver).unwrap();
        let error = format!(
            "{:#}",
            datapath.hook_xdp(ifindex("pod"), "pod").unwrap_err()
        );
        assert!(
            error.contains("XDP: epguard_xdp (id "),
            "{theirs:?}: {error}"
        );
        assert!(
            error.contains("of another owner is attached and stays"),
            "{theirs:?}: {error}"
        );
        assert!(!node.xdp_pin().exists());
        assert_eq!(shown(), before);
        // What only detaches leaves it alone as well.
        detach(&node);
        assert_eq!(shown(), before);
        foreign(&mut other).detach(id).unwrap();
        assert!(
            attach(&node, Xdp::Driver)
                .unhook_xdp(ifindex("pod"))
                .unwrap()
        );
    }
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn an_interface_where_xdp_gains_nothing_or_cannot_be_is_refused() {
    const NOT_BY_DRIVER: &str =
        "takes no program in driver mode: bpf_link_create: Operation not supported";
    let node = Node::new();
    ip("link add cni0 type bridge");
    for (wanted, name, expected) in [
        (Xdp::Auto, "pod", "gains little on a veth"),
        (Xdp::Driver, "lo", "no Ethernet device"),
        (Xdp::Driver, "cni0", NOT_BY_DRIVER),
    ] {
        let mut datapath = node.load(Hooks::Auto).with_xdp(wanted).unwrap();
        for _ in 0..2 {
            let error = format!("{:#}", datapath.hook_xdp(ifindex(name), name).unwrap_err());
            assert!(error.contains(expected), "{wanted:?} at {name}: {error}");
        }
        assert!(!node.xdp_pin().exists());
    }
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn an_xdp_link_of_another_version_gives_way_and_detach_removes_it_after_a_crash() {
    let node = Node::new();
    drop(attach(&node, Xdp::Driver));
    let pinned = node.xdp_pin();
    let other = node.pins().join("v2");
    std::fs::rename(node.pins().join("v3"), &other).unwrap();
    let (before, _) = link(&other.join(pinned.strip_prefix(node.pins().join("v3")).unwrap()));
    attach(&node, Xdp::Driver);
    assert!(shown().contains("xdp") && link(&pinned).0 != before);
    let said = detach(&node);
    assert!(
        said.contains(&format!("removed link {}\n", pinned.display())),
        "{said}"
    );
    assert!(!shown().contains("xdp") && !node.pins().exists());
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_severed_xdp_link_is_attached_again() {
    let node = Node::new();
    let mut datapath = attach(&node, Xdp::Driver);
    let (severed, _) = link(&node.xdp_pin());
    run("bpftool", &["link", "detach", "id", &severed.to_string()]);
    assert!(!shown().contains("xdp"));
    datapath.hook_xdp(ifindex("pod"), "pod").unwrap();
    assert!(shown().contains("xdp") && link(&node.xdp_pin()).0 != severed);
    // An interface made again with the same number is another one.
    let number = ifindex("pod");
    ip("link del pod");
    ip(&format!(
        "link add pod index {number} type veth peer name other"
    ));
    datapath.hook_xdp(ifindex("pod"), "pod").unwrap();
    assert!(shown().contains("xdp"));
}

/// As an agent that finds its uplink.
fn attach(node: &Node, xdp: Xdp) -> Datapath {
    let mut datapath = node.load(Hooks::Auto).with_xdp(xdp).unwrap();
    datapath.hook_xdp(ifindex("pod"), "pod").unwrap();
    datapath
}

/// A program that no pin holds, as other people's.
fn foreign(datapath: &mut Datapath) -> &mut Program {
    let program = datapath.ebpf.program_mut("epguard_xdp").unwrap();
    let program: &mut Program = program.try_into().unwrap();
    if program.fd().is_err() {
        program.load().unwrap();
    }
    program
}
