//! Evidence for orphan IPs of this node, and cases without it. One story each.

use super::*;

fn entries(world: &World, lifted: bool) -> Vec<(Addr, Uid)> {
    let terminated = world.state.tables().terminated.iter();
    let entries = terminated.filter(|(_, orphan_ip)| orphan_ip.lifted.is_some() == lifted);
    entries
        .map(|(ip, orphan_ip)| (*ip, orphan_ip.dead))
        .collect()
}

fn orphan_ip(world: &World) -> Vec<(Addr, Uid)> {
    entries(world, false)
}

/// Entries that only keep the kernel from forgetting who spoke.
fn lifted(world: &World) -> Vec<(Addr, Uid)> {
    entries(world, true)
}

/// What metrics and readiness count.
fn terminated(world: &World) -> u64 {
    report::pod_counts(&world.state).ips[&IpState::Terminated]
}

fn speaks(world: &mut World, ip: Addr) {
    world.tell(Fact::Presence(Presence::Spoke(ip, world.now)));
}

const OUTSIDE: Addr = Addr::v4([172, 16, 0, 9]);

#[test]
fn an_ip_is_an_orphan_once_the_last_pod_that_had_it_is_dead_and_none_may_hold_it() {
    let ranges = |pod_cidrs: &[Cidr]| {
        let of = |name, number| Node {
            pod_cidrs: pod_cidrs.into(),
            ..node(name, number)
        };
        Fact::Node(Change::Reset(vec![of("node-a", 1), of("node-b", 2)]))
    };
    let announced = |text| Fact::Presence(Presence::Announced(vec![Cidr::parse(text).unwrap()]));
    let coming = pending("other", "b", "b");
    let far = on("node-b", pending("other", "c", "c"));
    for (sentence, facts, expected) in [
        ("nothing else happened", vec![], true),
        (
            "a slice lists it for the dead pod",
            vec![sliced(&[(X, Some(a().uid))])],
            true,
        ),
        ("another pod shows it", vec![shown(b())], false),
        (
            "another pod retired there",
            vec![shown(b()), gone(&b())],
            false,
        ),
        (
            "a pod of the node shows no IP",
            vec![shown(coming.clone())],
            false,
        ),
        (
            "it came up elsewhere",
            vec![shown(coming), shown(pod("other", "b", "b", &[Y]))],
            true,
        ),
        ("another node never hands X out", vec![shown(far)], true),
        (
            "a slice lists it without a pod",
            vec![sliced(&[(X, None)])],
            false,
        ),
        (
            "the node has a route there",
            vec![routes_to(&[Y, X])],
            false,
        ),
        (
            "it has none any more",
            vec![routes_to(&[Y, X]), routes_to(&[Y])],
            true,
        ),
        (
            "a route there was announced",
            vec![announced("10.244.1.10/32")],
            false,
        ),
        (
            "a route to a part of the range was announced",
            vec![announced("10.244.1.0/26")],
            false,
        ),
        (
            "it is gone",
            vec![announced("10.244.1.10/32"), routes_to(&[])],
            true,
        ),
        (
            "routes cannot be listed",
            vec![Fact::Presence(Presence::Unknown)],
            false,
        ),
        (
            "the node has no ranges of its own",
            vec![ranges(&[])],
            false,
        ),
    ] {
        let (mut world, a) = World::with_an_orphan();
        world.tell_all(facts);
        let orphan: &[_] = if expected { &[(X, a.uid)] } else { &[] };
        assert_eq!(orphan_ip(&world), orphan, "{sentence}");
        world.later(MEMORY * 2);
        assert!(
            expected || orphan_ip(&world).is_empty(),
            "{sentence}, and is forgotten"
        );
    }
}

#[test]
fn an_orphan_ip_waits_for_its_namespace_and_has_the_mode_that_it_asks_for() {
    for asked in [Mode::Observe, Mode::Enforce] {
        let mut world = World::cluster();
        let a = pod("new", "a", "a", &[X]);
        world.pod(&a).pod(&dead(&a));
        assert!(!world.is_orphan(X), "its Namespace may ask for off");
        world.tell(shown_namespace("new", asked));
        assert_eq!(world.state.tables().terminated[&X].mode, asked);
    }
}

#[test]
fn no_ip_is_an_orphan_before_the_sync_and_before_the_nodes_routes_are_known() {
    let mut world = World::blind(settings());
    world.pod(&a());
    world.pod(&dead(&a()));
    assert_eq!(orphan_ip(&world), [], "routes were never listed");
    world.tell(routes_to(&[]));
    assert_eq!(orphan_ip(&world), [(X, a().uid)]);
    world.state = State::new(settings());
    world.tell(Fact::Node(Change::Reset(vec![node("node-a", 1)])));
    world.list(&[dead(&a())]);
    world.tell(routes_to(&[]));
    assert_eq!(orphan_ip(&world), [], "not synced");
}

#[test]
fn pods_that_may_run_that_opted_out_or_whose_ips_are_not_the_nodes_leave_no_orphan_ip() {
    let at = |ip| pod("shop", "a", "web", &[ip]);
    for (sentence, pod, end) in [
        ("retired", a(), terminal(&a())),
        (
            "opted out",
            a(),
            Pod {
                bound: Mode::Off,
                ..dead(&a())
            },
        ),
        (
            "on the node's network",
            a(),
            Pod {
                host_network: true,
                ..dead(&a())
            },
        ),
        ("of another node", far(), dead(&far())),
        ("outside of all ranges", at(OUTSIDE), dead(&at(OUTSIDE))),
    ] {
        let mut world = World::cluster();
        let pod = Pod {
            bound: end.bound,
            host_network: end.host_network,
            ..pod
        };
        world.pod(&pod);
        world.pod(&end);
        assert_eq!(orphan_ip(&world), [], "{sentence}");
        world.deleted(&pod);
        assert_eq!(
            orphan_ip(&world),
            [],
            "{sentence}, force-deleted: its containers may run on"
        );
    }
}

#[test]
fn an_ip_stays_an_orphan_for_a_while_after_its_pod_object_and_while_clients_send() {
    let (mut world, a) = World::with_an_orphan();
    world.deleted(&dead(&a));
    world.later(MEMORY / 10 * 9);
    assert_eq!(orphan_ip(&world), [(X, a.uid)]);
    let port = 5432;
    let protocol = Protocol::Tcp;
    let socket = Endpoint {
        ip: X,
        port,
        protocol,
    };
    world.state.hit(world.now, ServiceNumber::NONE, &socket);
    world.later(MEMORY / 2);
    assert_eq!(orphan_ip(&world), [(X, a.uid)]);
    world.later(MEMORY);
    assert_eq!(orphan_ip(&world), []);
    world.tell(Fact::Pod(Change::Reset(vec![])));
    assert_eq!(
        orphan_ip(&world),
        [],
        "what was forgotten does not come back"
    );
}

#[test]
fn a_node_asks_for_routes_to_its_ranges_only_while_it_has_a_dead_pod() {
    let mut unsynced = State::new(settings());
    unsynced.apply(
        Duration::from_secs(1),
        Fact::Node(Change::Reset(vec![node("node-a", 1), node("node-b", 2)])),
    );
    let own = node("node-a", 1).pod_cidrs;
    assert_eq!(
        unsynced.ranges_in_question(),
        own,
        "an earlier process may have known of one"
    );
    let mut world = World::cluster();
    let a = a();
    world.pod(&a);
    assert_eq!(world.state.ranges_in_question(), []);
    world.pod(&dead(&a));
    assert_eq!(world.state.ranges_in_question(), own);
    world.deleted(&dead(&a));
    world.later(MEMORY * 2);
    assert_eq!(world.state.ranges_in_question(), []);
}

#[test]
fn a_packet_from_an_orphan_ip_lifts_its_denial_until_another_pod_dies_there() {
    let (mut world, a) = World::with_an_orphan();
    assert_eq!(terminated(&world), 1);
    speaks(&mut world, X);
    assert_eq!(
        (orphan_ip(&world), lifted(&world)),
        (vec![], vec![(X, a.uid)])
    );
    assert_eq!(
        world.state.tables().terminated.len(),
        1,
        "in the map, but not counted as denied"
    );
    assert_eq!(terminated(&world), 0);
    world.pod(&dead(&a));
    assert_eq!(orphan_ip(&world), []);
    let b = b();
    world.pod(&b);
    world.pod(&dead(&b));
    assert_eq!(orphan_ip(&world), [(X, b.uid)]);
    world.pod(&dead(&a));
    world.list(&[dead(&a), dead(&b)]);
    assert!(
        !orphan_ip(&world).contains(&(X, a.uid)),
        "A was dead when somebody spoke"
    );
}

#[test]
fn a_late_report_of_a_packet_lifts_only_earlier_denials() {
    let (mut world, _) = World::with_an_orphan();
    let at = world.now;
    world
        .pod(&b())
        .pod(&dead(&b()))
        .tell(Fact::Presence(Presence::Spoke(X, at)));
    assert_eq!(orphan_ip(&world), [(X, b().uid)]);
    // A death that only a list shows may be older than the packet.
    let (mut world, _) = World::with_an_orphan();
    speaks(&mut world, X);
    world.list(&[dead(&b())]).list(&[dead(&b())]);
    assert_eq!(
        (orphan_ip(&world), lifted(&world)),
        (vec![], vec![(X, b().uid)])
    );
}

#[test]
fn the_entry_of_a_lifted_ip_stays_except_while_a_live_pod_shows_the_ip() {
    let (mut world, a) = World::with_an_orphan();
    speaks(&mut world, X);
    world.tell(routes_to(&[X]));
    world.pod(&pending("other", "b", "b"));
    assert_eq!(
        (orphan_ip(&world), lifted(&world)),
        (vec![], vec![(X, a.uid)])
    );
    let b = b();
    world.pod(&b);
    assert_eq!((orphan_ip(&world), lifted(&world)), (vec![], vec![]));
    world.deleted(&b);
    assert_eq!(
        (orphan_ip(&world), lifted(&world)),
        (vec![], vec![(X, a.uid)])
    );
}

#[test]
fn lifts_survive_an_api_that_goes_back_in_time() {
    let (mut world, a) = World::with_an_orphan();
    speaks(&mut world, X);
    world.state.start_over(world.now);
    world.later(MEMORY * 2);
    world.list_all_but_pods();
    for _ in 0..2 {
        world.list(&[dead(&a)]);
    }
    assert_eq!(
        (orphan_ip(&world), lifted(&world)),
        (vec![], vec![(X, a.uid)])
    );
}

/// Pods of another node, each with an IP of its own.
fn others(count: u32) -> impl Iterator<Item = Pod> {
    (0..count).map(|number| {
        let ip = Addr::v4((number + (172 << 24)).to_be_bytes());
        on(
            "node-b",
            pod("other", &format!("other-{number}"), "other", &[ip]),
        )
    })
}

/// More IPs than are remembered without an owner.
const VERY_MANY: u32 = 32_800;

#[test]
fn an_ip_that_another_pod_had_last_is_no_orphan_however_many_ips_have_lost_their_owner_since() {
    let mut world = World::cluster();
    world.pod(&a()).pod(&terminal(&a())).pod(&b()).deleted(&b());
    for other in others(VERY_MANY) {
        let other = Pod {
            uid: uid("other"),
            name: ObjectName::new("other", "other"),
            ..other
        };
        world.state.apply(world.now, shown(other));
    }
    world.later(Duration::from_mins(11)).pod(&dead(&a()));
    assert!(!world.is_orphan(X), "B may still run");
}

#[test]
fn an_ip_that_another_pod_had_last_is_no_orphan_after_the_api_of_a_large_cluster_went_back_in_time()
{
    let mut world = World::cluster();
    let mut pods: Vec<Pod> = others(VERY_MANY).collect();
    world
        .list(&pods)
        .pod(&a())
        .pod(&dead(&a()))
        .pod(&b())
        .deleted(&b());
    world.state.start_over(world.now);
    world.later(Duration::from_secs(1)).list_all_but_pods();
    pods.push(dead(&a()));
    world.list(&pods).list(&pods);
    let sent = world.now;
    world.now += Duration::from_secs(1);
    let of_node = part(Selection::OnNode("node-a".into()), vec![dead(&a())]);
    world.tell(Fact::Pod(Change::Part(Part { sent, ..of_node })));
    world.tell(routes_to(&[]));
    assert!(!world.is_orphan(X), "B may still run");
}

#[test]
fn an_address_that_a_load_balancer_itself_has_is_no_orphan_from_then_on() {
    let (mut world, _) = World::with_an_orphan();
    world.tell(service(Service {
        proxied: vec![X],
        ..web()
    }));
    assert!(!world.is_orphan(X));
}
