//! Hooks of sockets on the children of cgroup v2's root: there before and after the start, beside other projects.

use super::agent::Agent;
use super::cgroup::{HOOKS, Root, Sleeper, attach, attached, detach, effective};
use super::node::{Node, link, run};
use aya::programs::{CgroupSockAddr, ProgramFd};
use aya_obj::generated::bpf_attach_type;
use epguard::kernel::datapath::{Datapath, Hooks, Scope};
use std::fs;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

const CONNECT4: bpf_attach_type = bpf_attach_type::BPF_CGROUP_INET4_CONNECT;

/// How many of our hooks are on this very cgroup.
fn hooks(cgroup: &Path) -> usize {
    HOOKS.into_iter().map(|hook| attached(cgroup, hook).len()).sum()
}

fn children(root: &Root) -> Scope {
    Scope::ChildrenOf(root.path.clone())
}

/// A program that another project attaches.
fn other(datapath: &mut Datapath) -> (ProgramFd, u32) {
    let program: &mut CgroupSockAddr = datapath
        .ebpf
        .program_mut("epguard_connect4")
        .unwrap()
        .try_into()
        .unwrap();
    program.load().unwrap();
    let id = program.info().unwrap().id();
    (program.fd().unwrap().try_clone().unwrap(), id)
}

#[test]
#[ignore = "needs root: BPF and cgroups of its own"]
fn cgroups_from_before_and_after_the_start_are_hooked_and_the_root_is_not() {
    let (node, root) = (Node::new(), Root::new());
    let before = root.child("before");
    let mut datapath = node.load(Hooks::Tcx);
    assert!(!datapath.hook_sockets(children(&root)).unwrap());
    assert_eq!((hooks(&root.path), hooks(&before)), (0, 5));
    let after = root.child("after");
    assert!(
        datapath.follow_sockets().unwrap(),
        "no socket was made in an empty cgroup"
    );
    assert_eq!((hooks(&root.path), hooks(&after)), (0, 5));
    let used = root.child("used");
    let sleeper = Sleeper::start(&used);
    assert!(
        !datapath.follow_sockets().unwrap(),
        "a process may have made a socket meanwhile"
    );
    assert!(datapath.follow_sockets().unwrap());
    assert_eq!(hooks(&used), 5);
    drop(sleeper);
    run(
        env!("CARGO_BIN_EXE_epguard"),
        &["detach", "--pin-dir", node.pins().to_str().unwrap()],
    );
    assert_eq!([&before, &after, &used].map(|cgroup| hooks(cgroup)), [0; 3]);
}

#[test]
#[ignore = "needs root: BPF and cgroups of its own"]
fn the_pins_of_a_removed_cgroup_go_and_no_socket_was_missed() {
    let (node, root) = (Node::new(), Root::new());
    let cgroup = root.child("short");
    let pin = node.cgroup_pin(&cgroup, "connect4");
    let mut datapath = node.load(Hooks::Tcx);
    datapath.hook_sockets(children(&root)).unwrap();
    fs::remove_dir(cgroup).unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    while pin.exists() {
        assert!(datapath.follow_sockets().unwrap());
        assert!(Instant::now() < deadline, "the pin stays");
        std::thread::yield_now();
    }
    assert_eq!(datapath.node_sockets().cgroups, []);
}

#[test]
#[ignore = "needs root: BPF and cgroups of its own"]
fn links_of_all_cgroups_are_taken_over_and_severed_ones_attached_again() {
    let (node, root) = (Node::new(), Root::new());
    let cgroups = [root.child("one"), root.child("two")];
    let links = || {
        cgroups
            .each_ref()
            .map(|cgroup| link(&node.cgroup_pin(cgroup, "sendmsg4")).0)
    };
    node.load(Hooks::Tcx).hook_sockets(children(&root)).unwrap();
    let first = links();
    let mut datapath = node.load(Hooks::Tcx);
    assert!(datapath.hook_sockets(children(&root)).unwrap());
    assert_eq!(links(), first);
    let pin = node.cgroup_pin(&cgroups[1], "sendmsg4");
    run("bpftool", &["link", "detach", "pinned", pin.to_str().unwrap()]);
    assert_eq!(
        [(); 2].map(|()| datapath.follow_sockets().unwrap()),
        [false, true]
    );
    assert_eq!(cgroups.map(|cgroup| hooks(&cgroup)), [5, 5]);
}

#[test]
#[ignore = "needs root: BPF and cgroups of its own"]
fn a_program_can_be_attached_to_the_root_without_flags_and_runs_for_all_processes() {
    let (node, root) = (Node::new(), Root::new());
    let cgroup = root.child("kubepods");
    let mut datapath = node.load(Hooks::Tcx);
    datapath.hook_sockets(children(&root)).unwrap();
    let mut neighbour = node.load(Hooks::Tcx);
    let (program, id) = other(&mut neighbour);
    attach(program.as_fd(), &root.path, CONNECT4).expect("ours are not in its way");
    assert!(
        !effective(&cgroup, CONNECT4).contains(&id),
        "the kernel runs it only where no other is"
    );
    assert!(!datapath.follow_sockets().unwrap());
    assert!(effective(&cgroup, CONNECT4).contains(&id), "ours gave way");
    assert_eq!(hooks(&cgroup), 0);
    let shown = datapath.node_sockets().exclusive.unwrap();
    assert!(shown.contains(&format!("(id {id})")), "{shown}");
    datapath
        .require_sockets()
        .expect("pods' packets are judged all the same");
    detach(program.as_fd(), &root.path, CONNECT4).unwrap();
    assert!(!datapath.follow_sockets().unwrap());
    datapath.follow_sockets().unwrap();
    assert_eq!(hooks(&cgroup), 5);
}

#[test]
#[ignore = "needs root: BPF and cgroups of its own"]
fn a_cgroup_that_takes_no_second_program_is_shown_and_the_others_are_hooked() {
    let (node, root) = (Node::new(), Root::new());
    let (taken, free) = (root.child("taken"), root.child("free"));
    let mut neighbour = node.load(Hooks::Tcx);
    let (program, id) = other(&mut neighbour);
    attach(program.as_fd(), &taken, CONNECT4).unwrap();
    let mut datapath = node.load(Hooks::Tcx);
    datapath.hook_sockets(children(&root)).unwrap();
    datapath.require_sockets().unwrap();
    assert_eq!(hooks(&free), 5);
    assert_eq!(
        (hooks(&taken), attached(&taken, CONNECT4)),
        (1, vec![id]),
        "none of ours alone"
    );
    let shown = datapath.node_sockets().cgroups;
    let error = |name: &str| {
        let found = shown.iter().find(|cgroup| cgroup.path.ends_with(name)).unwrap();
        (found.attached, found.error.clone().unwrap_or_default())
    };
    assert_eq!(error("free"), (true, String::new()));
    let (attached, why) = error("taken");
    assert!(!attached && why.contains("Operation not permitted"), "{why}");
}

#[test]
#[ignore = "needs root: BPF and cgroups of its own"]
fn a_process_in_the_root_itself_is_named_and_a_root_without_cgroups_hooks_nothing() {
    let (node, root) = (Node::new(), Root::new());
    let mut datapath = node.load(Hooks::Tcx);
    datapath.hook_sockets(children(&root)).unwrap();
    let error = datapath.require_sockets().unwrap_err().to_string();
    assert!(error.contains("it has no cgroups"), "{error}");
    let sleeper = Sleeper::start(&root.path);
    root.child("late");
    datapath.follow_sockets().unwrap();
    datapath.require_sockets().unwrap();
    assert_eq!(datapath.node_sockets().outside, [sleeper.name()]);
}

#[test]
#[ignore = "needs root: BPF and cgroups of its own"]
fn an_agent_that_can_hook_no_cgroup_refuses_to_enforce_with_the_reason() {
    let (node, root) = (Node::new(), Root::new());
    let options = ["--mode", "enforce", "--cgroup-root", root.path.to_str().unwrap()];
    let said = Agent::start_as(&node, &options).complaint();
    assert!(said.contains("it has no cgroups"), "{said}");
}
