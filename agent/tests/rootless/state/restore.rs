//! What a new process takes over of what an earlier one proved. One story each.

use super::*;

/// What the earlier process left: A is dead, and was gone from the API before the new process
/// began.
fn left_behind() -> (Tables, Pod) {
    let (world, a) = World::where_a_died();
    (world.state.tables().clone(), a)
}

/// The greatest number in the tables.
fn last(tables: &Tables) -> u32 {
    let numbers = tables.services.values().map(|service| service.number);
    numbers.max().unwrap_or(0)
}

/// A new process that finds the tables and then lists this. `last`: the greatest number that was
/// ever written.
fn restarted_after(
    last: u32,
    tables: &Tables,
    pods: Vec<Pod>,
    services: Vec<Service>,
    slices: Vec<Slice>,
) -> World {
    let state = State::with_numbers(settings(), Numbers::after(last));
    taken_over_by(
        World {
            state,
            now: Duration::from_secs(1),
        },
        tables,
        pods,
        services,
        slices,
    )
}

/// The same of a new process that has begun.
fn taken_over_by(
    mut world: World,
    tables: &Tables,
    pods: Vec<Pod>,
    services: Vec<Service>,
    slices: Vec<Slice>,
) -> World {
    world.state.restore(tables.clone());
    world.tell(routes_to(&[]));
    world.list_namespaces_and_nodes();
    world.tell(Fact::Service(Change::Reset(services)));
    world.tell(Fact::Slice(Change::Reset(slices)));
    assert_eq!(
        world.reasons(),
        [],
        "nothing is proven before everything is listed"
    );
    world.tell(Fact::Pod(Change::Reset(pods)));
    world
}

fn restarted(tables: &Tables, pods: Vec<Pod>, services: Vec<Service>, slices: Vec<Slice>) -> World {
    restarted_after(last(tables), tables, pods, services, slices)
}

#[test]
fn who_wrote_a_slice_that_is_gone_is_not_known_so_that_a_selector_proves_nothing() {
    let (tables, a) = left_behind();
    let b = pod("shop", "b", "another", &[X]);
    for (slices, expected) in [
        (vec![], &[][..]),
        (vec![slice("web", &[(X, Some(a.uid))])], &[Reused]),
    ] {
        let mut world = restarted(&tables, vec![], vec![web()], slices);
        assert_eq!(world.reasons(), [DeadBackend]);
        world.pod(&b).denies(expected);
    }
}

#[test]
fn a_restored_death_keeps_its_denial_and_number_unless_the_lists_show_who_may_hold_the_ip() {
    let (tables, a) = left_behind();
    let b = pod("other", "b", "b", &[X]);
    let c = pod("shop", "c", "web", &[X]);
    let listed = || vec![slice("web", &[(X, Some(a.uid))])];
    let dead_backend = Some((DeadBackend, None));
    let reused = Some((Reused, Some(b.uid)));
    for (sentence, pods, slices, expected) in [
        ("nothing shows it", vec![], vec![], dead_backend),
        ("a slice lists it", vec![], listed(), dead_backend),
        (
            "it is shown dead, and no slice lists it",
            vec![dead(&a)],
            vec![],
            dead_backend,
        ),
        (
            "it is shown dead, and a slice lists it",
            vec![dead(&a)],
            listed(),
            dead_backend,
        ),
        ("it is shown alive", vec![a.clone()], listed(), None),
        (
            "a pod of another namespace has the IP",
            vec![b],
            vec![],
            reused,
        ),
        ("a pod of the Service has the IP", vec![c], vec![], None),
        (
            "a pod of the Service may have the IP",
            vec![pending("shop", "c", "web")],
            vec![],
            None,
        ),
        (
            "a slice lists the IP without a UID",
            vec![],
            vec![slice("web", &[(X, None)])],
            None,
        ),
    ] {
        let world = restarted(&tables, pods, vec![web()], slices);
        let denials = expected.map(|(reason, owner)| FoundDenial {
            ip: X,
            reason,
            state: UidState::Dead,
            meant: a.uid,
            owner,
        });
        assert_eq!(world.denials(), Vec::from_iter(denials), "{sentence}");
        let now = world.state.tables();
        if expected == dead_backend {
            assert_eq!(
                (&now.denied, &now.services),
                (&tables.denied, &tables.services),
                "{sentence}"
            );
            assert_eq!(now.terminated, tables.terminated, "{sentence}");
        } else if expected == reused {
            assert!(now.terminated.is_empty(), "{sentence}");
        }
    }
}

#[test]
fn before_the_sync_what_an_earlier_process_denied_ends_where_a_fact_speaks_against_it() {
    let (mut world, a) = World::where_a_died();
    let dead_backend = world.state.tables().clone();
    let b = pod("other", "b", "b", &[X]);
    let reused = world.pod(&b).state.tables().clone();
    let c = pod("shop", "c", "web", &[X]);
    let elsewhere = pod("shop", "c", "web", &[Y]);
    for (sentence, tables, facts, ends) in [
        (
            "nothing shows the IP",
            &dead_backend,
            vec![shown(elsewhere.clone())],
            false,
        ),
        (
            "its stranger shows it",
            &reused,
            vec![shown(b.clone())],
            false,
        ),
        (
            "a live pod shows it",
            &dead_backend,
            vec![shown(b.clone())],
            true,
        ),
        (
            "another live pod shows it",
            &reused,
            vec![shown(c.clone())],
            true,
        ),
        (
            "the pod that was meant lives",
            &dead_backend,
            vec![shown(a.clone())],
            true,
        ),
        (
            "a node has the IP",
            &dead_backend,
            vec![Fact::LocalAddresses(vec![X])],
            true,
        ),
        (
            "a slice lists the pod that was meant",
            &dead_backend,
            vec![sliced(&[(X, Some(a.uid))])],
            false,
        ),
        (
            "a slice lists it without a pod",
            &dead_backend,
            vec![sliced(&[(X, None)])],
            true,
        ),
        (
            "a slice lists it for a live pod",
            &dead_backend,
            vec![shown(elsewhere), sliced(&[(X, Some(c.uid))])],
            true,
        ),
    ] {
        let mut state = State::with_numbers(settings(), Numbers::after(last(tables)));
        state.restore(tables.clone());
        for fact in facts {
            state.apply(Duration::from_secs(1), fact);
        }
        let kept = state
            .take_contradicted()
            .map(|(kept, changes)| (kept.clone(), changes));
        assert_eq!(kept.is_some(), ends, "{sentence}");
        let Some((kept, changes)) = kept else {
            continue;
        };
        assert_eq!(
            kept,
            Tables {
                services: tables.services.clone(),
                ..Tables::default()
            },
            "{sentence}"
        );
        assert!(changes.denied.iter().eq(tables.denied.keys()), "{sentence}");
        assert_eq!(changes.suspects, [X].into());
        assert!(state.take_contradicted().is_none(), "once");
    }
}

/// The orders in which three facts may come.
const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

/// B is a stranger that has X, until it is the one who is meant: by the Service, or by another one
/// that has got its VIP meanwhile.
#[test]
fn before_the_sync_what_an_earlier_process_denied_ends_where_its_stranger_is_none_any_more() {
    let (mut world, _) = World::where_a_died();
    let b = pod("shop", "b", "api", &[X]);
    let tables = world.pod(&b).denies(&[Reused]).state.tables().clone();
    let api = Service {
        name: ObjectName::new("shop", "api"),
        selector: Some(selecting("api")),
        ..web()
    };
    let its_own = Service {
        vips: vec![Addr::v4([10, 96, 0, 2])],
        ports: vec![],
        ..api.clone()
    };
    let listing = |service: &Service| {
        let service = Some(service.name.clone());
        shown_slice(Slice {
            service,
            ..slice("s", &[(X, Some(b.uid))])
        })
    };
    let node_port = Service {
        vips: vec![],
        ..api.clone()
    };
    let proxy = Pod {
        host_ports: [HostPort {
            addr: None,
            port: 30_080,
            protocol: Protocol::Tcp,
        }]
        .into(),
        ..b.clone()
    };
    let nodes = || shown_node(node("node-a", 1));
    for (sentence, facts, ends) in [
        (
            "its Service is as it was",
            [service(web()), shown(b.clone()), nodes()],
            false,
        ),
        (
            "a Service with another VIP selects and lists it",
            [
                service(its_own.clone()),
                shown(b.clone()),
                listing(&its_own),
            ],
            false,
        ),
        (
            "its Service selects it",
            [
                service(Service {
                    selector: Some(selecting("api")),
                    ..web()
                }),
                shown(b.clone()),
                nodes(),
            ],
            true,
        ),
        (
            "its Service lists it",
            [service(web()), shown(b.clone()), listing(&web())],
            true,
        ),
        (
            "a Service that has got the VIP selects it",
            [service(api), shown(b.clone()), nodes()],
            true,
        ),
        (
            "a Service that has got the NodePort selects it",
            [service(node_port), shown(b.clone()), nodes()],
            true,
        ),
        (
            "it has the NodePort as a host port",
            [service(web()), shown(proxy), nodes()],
            true,
        ),
    ] {
        for order in ORDERS {
            let mut state = State::with_numbers(settings(), Numbers::after(last(&tables)));
            state.restore(tables.clone());
            for fact in order.map(|number| facts[number].clone()) {
                state.apply(Duration::from_secs(1), fact);
            }
            let has_ended = state
                .take_contradicted()
                .is_some_and(|(kept, _)| kept.denied.is_empty());
            assert_eq!(has_ended, ends, "{sentence}, in the order {order:?}");
        }
    }
}

fn selecting(app: &str) -> Selector {
    [("app", app)].into_iter().collect()
}

/// The earlier process had its reasons for the orphan IPs: it knew when each IP was last seen in
/// use.
#[test]
fn a_restored_denial_makes_no_orphan_ip_and_a_retired_pod_is_not_restored() {
    let (mut tables, _) = left_behind();
    tables.terminated.clear();
    let mut world = restarted(&tables, vec![], vec![web()], vec![]);
    world.denies(&[DeadBackend]);
    assert!(world.state.tables().terminated.is_empty());
    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a)).denies(&[RetiredBackend]);
    restarted(world.state.tables(), vec![], vec![web()], vec![]).denies(&[]);
}

#[test]
fn a_restored_death_outlives_a_status_that_no_longer_proves_it() {
    let (tables, a) = left_behind();
    let b = pod("other", "b", "b", &[X]);
    let rejected = Pod {
        ips: Vec::new(),
        ..terminal(&a)
    };
    for rewritten in [terminal(&a), rejected] {
        let pods = vec![rewritten.clone(), b.clone()];
        let mut world = restarted(
            &tables,
            pods,
            vec![web()],
            vec![slice("web", &[(X, Some(a.uid))])],
        );
        let denied = [FoundDenial {
            ip: X,
            reason: Reused,
            state: UidState::Dead,
            meant: a.uid,
            owner: Some(b.uid),
        }];
        assert_eq!(world.denials(), denied);
        world.pod(&rewritten);
        assert_eq!(world.denials(), denied, "shown again");
        assert_eq!(world.carried_out(), [X]);
        world.pod(&a);
        assert_eq!(
            world.state.take_revived(),
            Some(a.name.clone()),
            "alive after all"
        );
        assert!(!world.state.is_synced() && world.state.tables().denied.is_empty());
    }
}

/// A second Service, of the same pods.
fn front() -> Service {
    let vips = vec![Addr::v4([10, 96, 0, 2])];
    Service {
        name: ObjectName::new("shop", "a-front"),
        uid: uid("a-front"),
        vips,
        ..web()
    }
}

/// A slice of each Service that lists the pod.
fn listing(services: &[Service], pod: &Pod) -> Vec<Slice> {
    let at = [(X, Some(pod.uid))];
    let services = services.iter();
    services
        .map(|of| Slice {
            service: Some(of.name.clone()),
            ..slice(&of.name.name, &at)
        })
        .collect()
}

/// Both Services list A, which is dead.
fn with_two_services() -> (World, Pod, [Service; 2]) {
    let (mut world, a) = World::cluster().with_a();
    let services = [web(), front()];
    world.tell(service(front())).tell_all(
        listing(&services, &a)
            .into_iter()
            .map(shown_slice)
            .collect(),
    );
    world.pod(&dead(&a));
    (world, a, services)
}

fn modes(world: &World) -> Vec<Mode> {
    let mut modes: Vec<Mode> = world
        .state
        .tables()
        .denied
        .values()
        .map(|denial| denial.mode)
        .collect();
    modes.sort_unstable();
    modes
}

#[test]
fn after_a_restart_a_conviction_still_costs_no_other_service() {
    let (world, a, services) = with_two_services();
    for convicted in &services {
        let mut world = World {
            state: world.state.clone(),
            ..world
        };
        world.state.demote(world.now, &convicted.name);
        world.later(Duration::from_secs(1));
        let tables = world.state.tables();
        for pods in [
            vec![],
            vec![Pod {
                ips: Vec::new(),
                ..terminal(&a)
            }],
            vec![dead(&a)],
        ] {
            let row = format!("{:?} {pods:?}", convicted.name);
            let state = State::with_numbers(settings(), Numbers::after(last(tables)));
            let mut next = World {
                state,
                now: Duration::from_secs(1),
            };
            next.state.demote(next.now, &convicted.name);
            let next = taken_over_by(
                next,
                tables,
                pods,
                services.to_vec(),
                listing(&services, &a),
            );
            assert_eq!(modes(&next), [Mode::Observe, Mode::Enforce], "{row}");
        }
    }
}

#[test]
fn after_a_restart_no_more_is_done_than_the_owner_allowed_though_only_one_service_was_judged_on_it()
{
    let (mut world, a, services) = with_two_services();
    let owner_allows_less = shown(Pod {
        bound: Mode::Observe,
        ..dead(&a)
    });
    world.state.begin_fact(world.now, owner_allows_less);
    while world.state.run_step(world.now, 1) {
        if modes(&world).contains(&Mode::Observe) {
            break;
        }
    }
    assert_eq!(
        modes(&world),
        [Mode::Observe, Mode::Enforce],
        "the other one is suspended"
    );
    let next = restarted(
        world.state.tables(),
        vec![],
        services.to_vec(),
        listing(&services, &a),
    );
    assert_eq!(modes(&next), [Mode::Observe; 2]);
}

#[test]
fn after_a_restart_no_more_is_done_than_an_earlier_dead_pod_at_the_ip_allowed() {
    let mut world = World::cluster();
    let services = [web(), front()];
    let earlier = Pod {
        bound: Mode::Observe,
        ..pod("shop", "earlier", "web", &[X])
    };
    let later = pod("shop", "later", "web", &[X]);
    world
        .tell(service(front()))
        .pod(&earlier)
        .slice(&[(X, Some(earlier.uid))]);
    world
        .pod(&dead(&earlier))
        .deleted(&dead(&earlier))
        .pod(&later);
    world.tell_all(
        listing(&services, &later)
            .into_iter()
            .map(shown_slice)
            .collect(),
    );
    world.pod(&dead(&later));
    assert_eq!(
        modes(&world),
        [Mode::Observe, Mode::Enforce],
        "only one Service has listed the earlier one"
    );
    let next = restarted(world.state.tables(), vec![], services.to_vec(), vec![]);
    assert_eq!(modes(&next), [Mode::Observe; 2]);
}

#[test]
fn an_ip_that_an_earlier_process_lifted_is_no_orphan_for_the_next_one() {
    let (mut tables, a) = left_behind();
    let orphan_ip = tables.terminated.get_mut(&X).unwrap();
    orphan_ip.lifted = Some(Duration::from_millis(1));
    let b = pod("other", "b", "b", &[X]);
    for listed in [vec![], vec![dead(&a)], vec![dead(&a), dead(&b)]] {
        let mut world = restarted(&tables, listed.clone(), vec![web()], vec![]);
        world.list(&listed);
        world.pod(&pending("other", "c", "c"));
        world.pod(&pod("other", "c", "c", &[Y]));
        let entry = world.state.tables().terminated.get(&X).unwrap();
        assert_eq!(entry.lifted, Some(Duration::from_millis(1)), "{listed:?}");
    }
}

#[test]
fn of_two_dead_pods_one_that_the_api_shows_alive_again_ends_only_its_own_denial() {
    let (mut world, pods) = World::cluster().with_backends(2);
    let listed = slice("web", &endpoints(&pods));
    let [a, other] = pods.try_into().unwrap();
    world.pod(&dead(&a));
    world.pod(&dead(&other));
    world.list(&[dead(&a), dead(&other)]);
    world.slice(&[]);
    assert_eq!(world.carried_out().len(), 2);
    let mut world = restarted(world.state.tables(), vec![a], vec![web()], vec![listed]);
    world.denies(&[DeadBackend]);
    assert_eq!(world.denials()[0].ip, Y);
    assert_eq!(
        world.state.tables().terminated.keys().collect::<Vec<_>>(),
        [&Y]
    );
}

/// Another Service with an endpoint that dies; returns its number.
fn number_of_another(world: &mut World) -> u32 {
    let name = ObjectName::new("other", "web");
    let vip = Addr::v4([10, 96, 0, 2]);
    world.tell(Fact::Service(Change::Applied(Service {
        name: name.clone(),
        vips: vec![vip],
        ..web()
    })));
    let pod = pod("other", "a2", "web", &[Y]);
    world.pod(&pod);
    world.tell(Fact::Slice(Change::Applied(Slice {
        name: name.clone(),
        service: Some(name),
        ..slice("web", &[(Y, Some(pod.uid))])
    })));
    world.pod(&dead(&pod));
    let services = &world.state.tables().services;
    let found = services.iter().find(|(key, _)| key.addr == vip);
    found.expect("it has a denial").1.number
}

#[test]
fn new_services_have_greater_numbers_than_any_that_was_written_or_that_a_deleted_one_had() {
    let (tables, _) = left_behind();
    let mut world = restarted(&tables, vec![], vec![], vec![]);
    assert!(world.state.tables().services.is_empty());
    assert_eq!(number_of_another(&mut world), last(&tables) + 1);
    let mut world = restarted_after(40, &tables, vec![], vec![web()], vec![]);
    assert_eq!(
        last(world.state.tables()),
        last(&tables),
        "its Service keeps its number"
    );
    assert_eq!(number_of_another(&mut world), 41);
    let tables = world.state.tables();
    let denied = tables.denied.keys().map(|key| key.service.number);
    assert_eq!(denied.max(), Some(41));
}

#[test]
fn invalid_numbers_in_restored_tables_are_ignored() {
    let (mut tables, _) = left_behind();
    let (target, denial) = tables
        .denied
        .iter()
        .map(|(target, denial)| (*target, *denial))
        .next()
        .unwrap();
    tables.denied.remove(&target);
    tables.denied.insert(
        DenialKey {
            protocol: 99,
            ..target
        },
        denial,
    );
    let vip = *tables.services.keys().next().unwrap();
    let before = tables.services.insert(vip, ServiceNumber { number: 3 });
    assert_ne!(before.unwrap().number, 3);
    assert_eq!(
        restarted(&tables, vec![], vec![web()], vec![]).reasons(),
        []
    );
}

#[test]
fn more_services_than_idle_numbers_are_kept_for_keep_theirs() {
    let (mut tables, _) = left_behind();
    let (target, denial) = tables
        .denied
        .iter()
        .map(|(target, denial)| (*target, *denial))
        .next()
        .unwrap();
    let vip = Vip {
        addr: web().vips[0],
        port: 80,
        protocol: 6,
        reserved: 0,
    };
    let mut services = vec![web()];
    for number in 2_u16..1_500 {
        let [high, low] = number.to_be_bytes();
        let [ip, addr] = [245, 97].map(|net| Addr::v4([10, net, high, low]));
        let service = ServiceNumber {
            number: number.into(),
        };
        let dead_uid = uid(&format!("a-{number}"));
        tables.denied.insert(
            DenialKey {
                addr: ip,
                service,
                ..target
            },
            Denial { dead_uid, ..denial },
        );
        tables.services.insert(Vip { addr, ..vip }, service);
        let name = ObjectName::new("shop", format!("web-{number}"));
        let ports = vec![ServicePort {
            node_port: 0,
            port: vip.port,
            ..web().ports[0]
        }];
        services.push(Service {
            name,
            vips: vec![addr],
            ports,
            ..web()
        });
    }
    let world = restarted(&tables, vec![], services, vec![]);
    let now = world.state.tables();
    assert_eq!(
        (now.denied.len(), &now.services),
        (tables.denied.len(), &tables.services)
    );
}
