//! Where the hooks are: only beside a load balancer, and around it.

use super::*;
use aya_obj::generated::{BPF_F_QUERY_EFFECTIVE, bpf_attach_type};
use epguard::kernel::datapath::bpf::{Target, query};
use std::fs;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

const HOOKS: [bpf_attach_type; 4] = [
    bpf_attach_type::BPF_CGROUP_INET4_CONNECT,
    bpf_attach_type::BPF_CGROUP_INET6_CONNECT,
    bpf_attach_type::BPF_CGROUP_UDP4_SENDMSG,
    bpf_attach_type::BPF_CGROUP_UDP6_SENDMSG,
];

/// The pins of links around a load balancer.
fn links(node: &Node) -> Vec<PathBuf> {
    let mut links: Vec<_> = fs::read_dir(node.pins().join("v3/links"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("lb-")
        })
        .collect();
    links.sort();
    links
}

/// Ids of the programs that run for the cgroup's processes.
fn effective(cgroup: &Path, hook: bpf_attach_type) -> Vec<u32> {
    let directory = fs::File::open(cgroup).unwrap();
    query(
        Target::Cgroup(directory.as_fd()),
        hook,
        BPF_F_QUERY_EFFECTIVE,
    )
    .unwrap()
    .0
}

/// The programs that run for the cgroup's processes, by their part: before, load balancer, after.
fn order(cgroup: &Path, node: &Node, hook: bpf_attach_type) -> String {
    let programs: Vec<(u64, bool)> = links(node)
        .iter()
        .map(|pin| {
            let name = pin.file_name().unwrap().to_str().unwrap();
            (link(pin).1, name.contains("before"))
        })
        .collect();
    effective(cgroup, hook)
        .into_iter()
        .filter_map(|id| {
            match programs
                .iter()
                .find(|(program, _)| *program == u64::from(id))
            {
                Some((_, true)) => Some('b'),
                Some((_, false)) => Some('a'),
                None => is_foreign(id).then_some('L'),
            }
        })
        .collect()
}

/// A program of another test may be gone by now.
fn is_foreign(id: u32) -> bool {
    let shown = output("bpftool", &["prog", "show", "id", &id.to_string()]);
    String::from_utf8_lossy(&shown.stdout).contains("cil_sock")
}

#[test]
#[ignore = "needs root: BPF and cgroups of its own"]
fn ours_run_before_and_after_the_load_balancer_in_cgroups_old_and_new() {
    let mut rig = Rig::new(VIP);
    let late = rig.root.child("late");
    assert!(rig.datapath.follow_socket_lb().unwrap());
    for cgroup in [&rig.root.pod, &late] {
        for hook in HOOKS {
            assert_eq!(order(cgroup, &rig.node, hook), "bLLa", "{hook:?}");
        }
    }
    let shown = rig.datapath.socket_lb();
    assert_eq!(shown.cgroup, rig.root.path.display().to_string());
    assert!(
        shown.programs[0].starts_with("cil_sock_connec (id "),
        "{:?}",
        shown.programs
    );
    assert!(shown.in_force && shown.problem.is_none(), "{shown:?}");
}

#[test]
#[ignore = "needs root: BPF and cgroups of its own"]
fn the_order_is_restored_when_the_load_balancer_attaches_anew() {
    let mut rig = Rig::new(VIP);
    rig.balancers[0].again();
    let connect = HOOKS[0];
    assert_eq!(order(&rig.root.pod, &rig.node, connect), "bLaL");
    let looks = [(); 3].map(|()| {
        let in_force = rig.datapath.follow_socket_lb().unwrap();
        (in_force, order(&rig.root.pod, &rig.node, connect))
    });
    let expected = [(false, "bLaL"), (false, "bLLa"), (true, "bLLa")];
    assert_eq!(
        looks,
        expected.map(|(in_force, order)| (in_force, order.to_owned()))
    );
}

#[test]
#[ignore = "needs root: BPF and cgroups of its own"]
fn hooks_that_the_load_balancer_does_not_use_stay_empty_and_one_that_it_leaves_ends_what_was_known()
{
    let node = Node::new();
    let root = Root::new();
    let mut datapath = node.load(Hooks::Auto).with_cgroup(Some(root.path.clone()));
    assert!(!datapath.follow_socket_lb().unwrap());
    assert_eq!(links(&node), Vec::<PathBuf>::new());
    assert_eq!(HOOKS.map(|hook| order(&root.pod, &node, hook)), [""; 4]);
    let shown = datapath.socket_lb();
    assert!(shown.programs.is_empty() && !shown.in_force && shown.problem.is_none());
    let attach = || Balancer::attach(&root.path, VIP, OTHER_VIP);
    for (is_v4, expected) in [
        (true, ["bLa", "", "bLa", ""]),
        (false, ["", "bLa", "", "bLa"]),
    ] {
        let mut balancer = attach();
        balancer.leave(!is_v4);
        follow(&mut datapath);
        assert_eq!(HOOKS.map(|hook| order(&root.pod, &node, hook)), expected);
    }
    let mut balancer = attach();
    follow(&mut datapath);
    balancer.leave(true);
    let in_force = [(); 2].map(|()| datapath.follow_socket_lb().unwrap());
    assert_eq!(in_force, [false, true]);
    assert_eq!(
        HOOKS.map(|hook| order(&root.pod, &node, hook)),
        ["", "bLa", "", "bLa"]
    );
}

#[test]
#[ignore = "needs root: BPF and cgroups of its own"]
fn the_hooks_go_with_the_load_balancer() {
    let mut rig = Rig::new(VIP);
    assert!(!links(&rig.node).is_empty());
    rig.balancers.clear();
    assert!(!rig.datapath.follow_socket_lb().unwrap());
    assert_eq!(links(&rig.node), Vec::<PathBuf>::new());
    let balancer = Balancer::attach(&rig.root.path, OTHER_VIP, VIP);
    follow(&mut rig.datapath);
    drop(balancer);
}

#[test]
#[ignore = "needs root: BPF and cgroups of its own"]
fn the_next_process_takes_the_links_over() {
    let rig = Rig::new(VIP);
    let ids = |node: &Node| -> Vec<_> {
        let shown = links(node);
        shown.iter().map(|pin| link(pin)).collect()
    };
    let first = ids(&rig.node);
    let mut successor = rig
        .node
        .load(Hooks::Auto)
        .with_cgroup(Some(rig.root.path.clone()));
    assert!(
        successor.follow_socket_lb().unwrap(),
        "{:?}",
        successor.socket_lb()
    );
    let second = ids(&rig.node);
    assert_eq!(first.len(), second.len());
    for (old, new) in first.iter().zip(second) {
        assert!(
            old.0 == new.0 && old.1 != new.1,
            "the same link, a new program"
        );
    }
}

#[test]
#[ignore = "needs root: BPF and cgroups of its own"]
fn a_load_balancer_that_runs_only_alone_is_left_alone_and_named() {
    let node = Node::new();
    let root = Root::new();
    let balancer = Balancer::attach(&root.path, VIP, OTHER_VIP);
    balancer.alone();
    let mut datapath = node.load(Hooks::Auto).with_cgroup(Some(root.path.clone()));
    assert!(!datapath.follow_socket_lb().unwrap());
    assert_eq!(order(&root.pod, &node, HOOKS[0]), "L");
    let problem = datapath.socket_lb().problem.unwrap();
    assert!(problem.contains("BPF_F_ALLOW_MULTI"), "{problem}");
    drop(balancer);
}

#[test]
#[ignore = "needs root: BPF, network namespaces and cgroups of its own"]
fn an_agent_follows_a_load_balancer_that_comes_and_goes() {
    let node = Node::new();
    let root = Root::new();
    let mut agent = Agent::start(&node, &["--cgroup", root.path.to_str().unwrap()]);
    agent.wait_for_lb(|lb| lb.programs.is_empty() && !lb.in_force);
    let balancer = Balancer::attach(&root.path, VIP, OTHER_VIP);
    agent.wait_for_lb(|lb| lb.in_force && lb.programs.len() == 2 && lb.problem.is_none());
    assert_eq!(links(&node).len(), 8);
    drop(balancer);
    agent.wait_for_lb(|lb| lb.programs.is_empty() && !lb.in_force);
    assert_eq!(links(&node), Vec::<PathBuf>::new());
}

#[test]
#[ignore = "needs root: BPF, network namespaces and cgroups of its own"]
fn an_agent_that_enforces_works_on_beside_a_load_balancer_that_runs_only_alone() {
    let node = Node::new();
    let root = Root::new();
    let balancer = Balancer::attach(&root.path, VIP, OTHER_VIP);
    balancer.alone();
    let path = root.path.to_str().unwrap();
    let mut agent = Agent::start(&node, &["--mode", "enforce", "--cgroup", path]);
    agent.wait_for_lb(|lb| {
        !lb.in_force
            && lb
                .problem
                .as_ref()
                .is_some_and(|problem| problem.contains("BPF_F_ALLOW_MULTI"))
    });
    agent.wait_for("pod", |at| at.attached);
    drop(balancer);
}
