//! What else translates a Service's address on this node, so that a packet to it may not be the
//! Service's. One story each.

use super::*;

fn vips(world: &World) -> Vec<(Addr, u16)> {
    let services = world.state.tables().services.keys();
    services.map(|vip| (vip.addr, vip.port)).collect()
}

/// A died behind `shop/web`, which has these addresses besides, and port 80.
fn with_vips(more: &[Addr]) -> World {
    let (mut world, _) = World::where_a_died();
    let vips = web().vips.into_iter().chain(more.iter().copied()).collect();
    world.tell(service(Service { vips, ..web() }));
    world
}

/// A pod of node-a with a host port.
fn proxy(addr: Option<Addr>, port: u16) -> Pod {
    let port = HostPort {
        addr,
        port,
        protocol: Protocol::Tcp,
    };
    Pod {
        host_ports: [port].into(),
        ..pod("kube-system", "proxy", "proxy", &[Y])
    }
}

#[test]
fn a_host_port_of_a_pod_of_this_node_is_a_rival_of_a_service_at_the_nodes_addresses() {
    let elsewhere = Addr::v4([192, 0, 2, 1]);
    for (sentence, proxy, addr, is_rival) in [
        ("on all addresses", proxy(None, 80), NODE, true),
        ("any port", proxy(None, 0), NODE, true),
        ("another port", proxy(None, 81), NODE, false),
        (
            "on all addresses of the node",
            proxy(None, 80),
            elsewhere,
            false,
        ),
        (
            "on this address",
            proxy(Some(elsewhere), 80),
            elsewhere,
            true,
        ),
        ("on another one", proxy(Some(elsewhere), 80), NODE, false),
        (
            "of another node",
            on("node-b", proxy(None, 80)),
            NODE,
            false,
        ),
        ("of a dead pod", dead(&proxy(None, 80)), NODE, false),
    ] {
        let mut world = with_vips(&[addr]);
        assert!(vips(&world).contains(&(addr, 80)), "{sentence}");
        world.pod(&proxy);
        assert_eq!(vips(&world).contains(&(addr, 80)), !is_rival, "{sentence}");
        assert!(vips(&world).contains(&(web().vips[0], 80)), "{sentence}");
        world.deleted(&proxy);
        assert_eq!(
            vips(&world).contains(&(addr, 80)),
            !is_rival,
            "{sentence}, and it may still run"
        );
        world.later(MEMORY + Duration::from_secs(1));
        assert!(vips(&world).contains(&(addr, 80)), "{sentence}");
    }
}

#[test]
fn a_host_port_of_a_pod_that_died_before_it_was_deleted_is_no_rival() {
    let mut world = with_vips(&[NODE]);
    let proxy = proxy(None, 80);
    world.pod(&proxy);
    assert!(!vips(&world).contains(&(NODE, 80)));
    world.pod(&dead(&proxy)).deleted(&dead(&proxy));
    assert!(vips(&world).contains(&(NODE, 80)));
}

#[test]
fn node_ports_are_at_this_nodes_addresses_and_its_loopback_and_beside_a_socket_load_balancer_at_all_nodes()
 {
    let (mut world, _) = World::where_a_died();
    let loopback = Addr::v4([127, 0, 0, 1]);
    let other = Addr::v4([192, 168, 250, 12]);
    let at = |world: &World, addr| vips(world).contains(&(addr, 30080));
    assert!(at(&world, NODE) && at(&world, loopback) && !at(&world, other));
    world.tell(Fact::SocketLb(true));
    assert!(at(&world, NODE) && at(&world, loopback) && at(&world, other));
    let third = Addr::v4([192, 168, 250, 13]);
    world.tell(shown_node(node("node-c", 3)));
    assert!(at(&world, third));
    world.tell(Fact::SocketLb(false));
    assert!(at(&world, NODE) && !at(&world, other) && !at(&world, third));
    world.pod(&proxy(None, 30080));
    assert!(!at(&world, NODE) && !at(&world, loopback));
}

#[test]
fn very_many_nodes_have_node_ports_at_their_own_addresses_alone() {
    let (mut world, _) = World::where_a_died();
    let other = Addr::v4([192, 168, 250, 12]);
    let at = |world: &World, addr| vips(world).contains(&(addr, 30080));
    world.tell(Fact::SocketLb(true));
    assert!(at(&world, NODE) && at(&world, other));
    let addresses =
        (0..=255).flat_map(|third| (0..16).map(move |last| Addr::v4([10, 9, third, last])));
    world.tell(shown_node(Node {
        addresses: addresses.collect(),
        ..node("node-c", 3)
    }));
    world
        .tell(service(Service {
            bound: Mode::Observe,
            ..web()
        }))
        .tell(service(web()));
    assert!(at(&world, NODE) && !at(&world, other));
}

#[test]
fn a_node_port_is_a_rival_of_a_service_at_a_nodes_address() {
    let mut world = with_vips(&[NODE]);
    let port = |node_port| {
        vec![ServicePort {
            port: 443,
            node_port,
            protocol: Protocol::Tcp,
        }]
    };
    let other = |node_port| Service {
        name: ObjectName::new("other", "web"),
        vips: vec![],
        ports: port(node_port),
        ..web()
    };
    for (node_port, is_rival) in [(31_000, false), (80, true), (31_000, false)] {
        world.tell(service(other(node_port))).later(MEMORY);
        assert_eq!(!vips(&world).contains(&(NODE, 80)), is_rival, "{node_port}");
    }
}

#[test]
fn a_vip_or_node_port_that_another_service_gave_up_is_ambiguous_for_ten_minutes() {
    let external = Addr::v4([192, 0, 2, 1]);
    let former = |name: &str| Service {
        name: ObjectName::new("other", name),
        vips: vec![external],
        ..web()
    };
    let at = |world: &World| [(external, 80), (NODE, 30_080)].map(|vip| vips(world).contains(&vip));
    for gives_up in [
        |former: Service| Fact::Service(Change::Deleted(former)),
        |former: Service| {
            service(Service {
                vips: vec![],
                ports: vec![],
                ..former
            })
        },
    ] {
        let mut world = with_vips(&[external]);
        assert_eq!(at(&world), [true; 2]);
        world.tell(service(former("web")));
        assert_eq!(at(&world), [false; 2]);
        world.tell(gives_up(former("web")));
        assert_eq!(at(&world), [false; 2], "its connections go on");
        assert!(
            report::rivals(&world.state).is_empty(),
            "no object claims it"
        );
        world.later(Duration::from_mins(9));
        assert_eq!(at(&world), [false; 2]);
        world.later(Duration::from_mins(2));
        assert_eq!(at(&world), [true; 2]);
    }
}

#[test]
fn of_a_pod_of_another_node_no_host_port_is_kept() {
    for (node, kept) in [("node-a", 1), ("node-b", 0)] {
        let pod = on(node, proxy(None, 80));
        for fact in [shown(pod.clone()), list_of(std::slice::from_ref(&pod))] {
            let mut world = World::cluster();
            world.tell(fact);
            let record = world.state.cluster().pods.get(pod.uid).unwrap();
            assert_eq!(record.pod.host_ports.len(), kept, "{node}");
        }
    }
}

#[test]
fn a_service_that_is_deleted_and_comes_back_is_no_rival_of_itself() {
    let mut world = with_vips(&[]);
    let before = vips(&world);
    world
        .tell(Fact::Service(Change::Deleted(web())))
        .tell(service(web()));
    assert_eq!(vips(&world), before);
}

#[test]
fn a_change_of_another_service_concerns_only_those_that_share_what_changed() {
    let mut world = with_vips(&[Addr::v4([192, 0, 2, 1])]);
    let rival = |vips: &[u8]| Service {
        name: ObjectName::new("other", "web"),
        vips: vips
            .iter()
            .map(|last| Addr::v4([192, 0, 2, *last]))
            .collect(),
        ports: vec![ServicePort {
            node_port: 0,
            ..web().ports[0]
        }],
        ..web()
    };
    let before = vips(&world);
    world.tell(service(rival(&[2, 3])));
    assert_eq!(vips(&world), before);
    world.tell(service(rival(&[2, 3, 1])));
    assert!(!vips(&world).contains(&(Addr::v4([192, 0, 2, 1]), 80)));
    world.tell(service(rival(&[2, 3]))).later(MEMORY);
    assert_eq!(vips(&world), before);
}

/// `other/wide`, whose pod is B, at so many addresses of its own and at 1,024 ports each. More than
/// four are left out.
fn wide(addrs: u8) -> Service {
    Service {
        uid: uid("wide"),
        name: ObjectName::new("other", "wide"),
        selector: Some([("app", "b")].into_iter().collect()),
        vips: (1..=addrs).map(external).collect(),
        ports: (1..=1_024)
            .map(|port| ServicePort {
                port,
                node_port: 0,
                protocol: Protocol::Tcp,
            })
            .collect(),
        ..web()
    }
}

fn external(last: u8) -> Addr {
    Addr::v4([203, 0, 113, last])
}

/// A died behind `shop/web`, which has B's IP by now, and this VIP besides.
fn with_vip(addr: Addr, port: u16) -> Service {
    let ports = vec![ServicePort {
        port,
        node_port: 0,
        protocol: Protocol::Tcp,
    }];
    Service {
        vips: vec![web().vips[0], addr],
        ports,
        ..web()
    }
}

#[test]
fn a_vip_that_a_service_without_room_gave_up_is_ambiguous_at_each_of_its_ports() {
    for port in [1, 820, 1_024] {
        let (mut world, _) = World::where_a_died();
        world
            .tell(service(wide(5)))
            .pod(&b())
            .tell(service(wide(4)));
        world.tell(service(with_vip(external(5), port)));
        assert_eq!(world.in_force(), [Reason::Reused], "{port}");
        assert!(
            !vips(&world).contains(&(external(5), port)),
            "{port}: connections of other/wide lead to B"
        );
    }
}

#[test]
fn ports_of_a_service_of_which_not_all_was_read_are_ambiguous() {
    let (mut world, _) = World::where_a_died();
    world.tell(service(with_vip(external(1), 1_400)));
    assert!(vips(&world).contains(&(external(1), 1_400)));
    world.tell(service(Service {
        partial: true,
        ..wide(1)
    }));
    assert!(
        !vips(&world).contains(&(external(1), 1_400)),
        "other/wide may have it"
    );
    assert_eq!(
        report::left_out(&world.state),
        [].into(),
        "it is partial, not too large"
    );
}

#[test]
fn the_vips_beside_a_service_that_is_left_out_and_that_fits_again_are_those_of_a_judgement_of_everything()
 {
    let (mut world, _) = World::where_a_died();
    let wide = |addrs| {
        let mut wide = wide(addrs);
        wide.ports[0].node_port = 31_000;
        wide
    };
    world.tell(service(with_vip(external(1), 31_000)));
    for addrs in [3, 5, 3] {
        world.tell(service(wide(addrs)));
        let afresh = world.state.judged_afresh(world.now);
        assert_eq!(
            world.state.tables().services,
            afresh.tables().services,
            "{addrs} addresses"
        );
    }
}
