//! The load balancer starts, restarts and goes; and the harm without epguard beside it.

use super::world::{World, on_both_families, peer};
use aya::programs::loaded_programs;
use epguard::kernel::datapath::bpf::{Target, query};
use epguard_lab::net::SocketRoot;
use epguard_lab::proxy::Protocol;
use epguard_lab::traffic::Outcome;
use socket2::Type;
use std::fs::File;
use std::os::fd::AsFd as _;

/// How many of its programs of `connect` are at the root. Agents of other tests may have hooked it too.
fn attached(root: &SocketRoot) -> usize {
    let root = File::open(root.path()).unwrap();
    let hook = aya_obj::generated::bpf_attach_type::BPF_CGROUP_INET4_CONNECT;
    let (there, _) = query(Target::Cgroup(root.as_fd()), hook, 0).unwrap();
    let programs = loaded_programs().filter_map(Result::ok);
    programs
        .filter(|program| there.contains(&program.id()) && program.name_as_str() == Some("sock4_connect"))
        .count()
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_restarted_load_balancer_knows_the_sockets_of_the_one_before() {
    on_both_families(|mut world| {
        world.program(&world.backends());
        let vip = world.cluster.vip();
        let socket = world.socket("shop/client", Type::STREAM, vip);
        socket.connect(&vip.into()).unwrap();
        world.lb.start().unwrap();
        assert_eq!(attached(&world.root), 1);
        assert_eq!(peer(&socket), vip);
        world.lb.stop().unwrap();
        assert_ne!(peer(&socket), vip);
        world.lb.start().unwrap();
        assert_eq!(peer(&socket), vip);
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_stopped_load_balancer_leaves_nothing_at_the_root() {
    on_both_families(|mut world| {
        world.program(&world.backends());
        world.lb.stop().unwrap();
        assert_eq!(attached(&world.root), 0);
        let seen = world.call("shop/client", Protocol::Tcp, world.cluster.vip());
        assert!(!matches!(seen, Outcome::Reply(_)), "{seen}");
        world.program(&world.backends()[..1]);
        world.lb.start().unwrap();
        let seen = world.call("shop/client", Protocol::Tcp, world.cluster.vip());
        assert_eq!(seen, Outcome::Reply("shop/local".into()));
        let World { lb, root, .. } = world;
        drop(lb);
        assert_eq!(attached(&root), 0);
    });
}
