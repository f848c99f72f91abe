//! What clients see of the translation, and what is left when it ends.

use std::fs::File;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;

use aya::programs::loaded_programs;
use epguard::kernel::datapath::bpf::{Target, query};
use epguard_lab::net::SocketRoot;
use epguard_lab::proxy::Protocol;
use epguard_lab::traffic::{Outcome, Server};
use socket2::Type;

use super::world::{World, any, echo, on_both_families, peer};
use crate::net::cluster::PROTOCOLS;

const KINDS: [Type; 2] = [Type::STREAM, Type::DGRAM];
const HOSTS: [&str; 2] = ["node-a", "shop/client"];

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_cluster_ip_leads_to_its_backends_without_any_packet_to_it() {
    on_both_families(|mut world| {
        for (backend, pod) in world
            .backends()
            .into_iter()
            .zip(["shop/local", "shop/remote"])
        {
            world.program(&[backend]);
            for (host, protocol) in HOSTS
                .into_iter()
                .flat_map(|host| PROTOCOLS.map(|of| (host, of)))
            {
                let seen = world.call(host, protocol, world.cluster.vip());
                assert_eq!(seen, Outcome::Reply(pod.to_owned()), "{host} {protocol:?}");
            }
        }
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn tcp_connections_take_turns_and_a_udp_socket_stays_with_its_backend() {
    on_both_families(|mut world| {
        world.program(&world.backends());
        let vip = world.cluster.vip();
        let call = || world.call("shop/client", Protocol::Tcp, vip);
        let seen = [call(), call(), call()];
        assert_eq!(seen[0], seen[2]);
        assert_ne!(seen[0], seen[1]);
        let socket = world.socket("shop/client", Type::DGRAM, vip);
        socket.bind(&any(vip.is_ipv6()).into()).unwrap();
        let answers = || {
            world
                .cluster
                .servers
                .iter()
                .map(Server::requests)
                .collect::<Vec<_>>()
        };
        let before = answers();
        (0..4).for_each(|_| assert_eq!(echo(&socket, vip), vip));
        let by: Vec<u64> = answers()
            .iter()
            .zip(before)
            .map(|(now, before)| now - before)
            .collect();
        assert!(by == [4, 0] || by == [0, 4], "{by:?}");
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_connected_socket_shows_the_cluster_ip_as_its_peer() {
    on_both_families(|mut world| {
        world.program(&world.backends()[..1]);
        let vip = world.cluster.vip();
        for (host, kind) in HOSTS
            .into_iter()
            .flat_map(|host| KINDS.map(|kind| (host, kind)))
        {
            let socket = world.socket(host, kind, vip);
            socket.connect(&vip.into()).unwrap();
            assert_eq!(peer(&socket), vip, "{host} {kind:?}");
            // Once the Service is gone, or is another, the socket shows the backend.
            world.lb.program(&[]).unwrap();
            assert_eq!(peer(&socket), world.backends()[0], "{host} {kind:?}");
            world.program(&world.backends()[..1]);
            assert_eq!(peer(&socket), world.backends()[0], "{host} {kind:?}");
        }
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn one_udp_socket_to_two_services_is_shown_which_of_them_has_answered() {
    on_both_families(|mut world| {
        let [local, remote] = world.backends();
        let one = world.cluster.vip();
        let two = SocketAddr::new(one.ip(), 81);
        let program = |world: &mut World, second| {
            let rules = [
                World::service(one, &[local], false),
                World::service(two, &[second], false),
            ];
            world.lb.program(&rules.concat()).unwrap();
        };
        program(&mut world, remote);
        let socket = world.socket("shop/client", Type::DGRAM, one);
        socket.bind(&any(one.is_ipv6()).into()).unwrap();
        for to in [one, two, one, local, two] {
            // A backend that was reached through a Service before is shown as that Service: its
            // entry is (cookie, backend).
            assert_eq!(echo(&socket, to), if to == local { one } else { to });
        }
        // Two Services with one backend: the one that was used last.
        program(&mut world, local);
        assert_eq!(echo(&socket, one), one);
        socket.send_to(b"request\n", &one.into()).unwrap();
        assert_eq!(echo(&socket, two), two);
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn session_affinity_keeps_each_network_namespace_at_one_backend() {
    on_both_families(|mut world| {
        let vip = world.cluster.vip();
        let rules = |backends: &[SocketAddr]| World::service(vip, backends, true);
        world.lb.program(&rules(&world.backends())).unwrap();
        let call = |world: &World, host| world.call(host, Protocol::Tcp, vip);
        let first = HOSTS.map(|host| call(&world, host));
        assert_ne!(first[0], first[1]);
        for _ in 0..3 {
            assert_eq!(HOSTS.map(|host| call(&world, host)), first);
        }
        // A backend that is gone frees its clients, even if it comes back.
        world.lb.program(&rules(&world.backends()[..1])).unwrap();
        let local = Outcome::Reply("shop/local".into());
        assert_eq!(
            HOSTS.map(|host| call(&world, host)),
            [local.clone(), local.clone()]
        );
        world.lb.program(&rules(&world.backends())).unwrap();
        assert_eq!(HOSTS.map(|host| call(&world, host)), [local.clone(), local]);
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_service_without_backends_is_an_unreachable_host() {
    on_both_families(|mut world| {
        world.program(&[]);
        let vip = world.cluster.vip();
        for kind in KINDS {
            let error = world
                .socket("shop/client", kind, vip)
                .connect(&vip.into())
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{kind:?}");
        }
        let socket = world.socket("shop/client", Type::DGRAM, vip);
        let error = socket.send_to(b"request\n", &vip.into()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::HostUnreachable);
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn sockets_of_other_network_namespaces_are_left_alone() {
    on_both_families(|mut world| {
        world.program(&world.backends());
        let vip = world.cluster.vip();
        for host in ["node-b", "external", "shop/local"] {
            let seen = world.call(host, Protocol::Tcp, vip);
            assert!(!matches!(seen, Outcome::Reply(_)), "{host}: {seen}");
        }
    });
}

/// How many of its programs of `connect` are at the root. Agents of other tests may have hooked it
/// too.
fn attached(root: &SocketRoot) -> usize {
    let root = File::open(&root.path).unwrap();
    let hook = aya_obj::generated::bpf_attach_type::BPF_CGROUP_INET4_CONNECT;
    let (there, _) = query(Target::Cgroup(root.as_fd()), hook, 0).unwrap();
    let programs = loaded_programs().filter_map(Result::ok);
    programs
        .filter(|program| {
            there.contains(&program.id()) && program.name_as_str() == Some("sock4_connect")
        })
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
