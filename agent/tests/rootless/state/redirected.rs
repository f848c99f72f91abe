//! Endpoints to which new flows of a denied endpoint are redirected. One story each.

use super::*;

/// The Service asks for redirect, A is dead, Y and FAR are ready.
fn redirecting(on_denial: OnDenial) -> World {
    let mut world = World::cluster();
    let on_denial = OnDenial {
        action: Action::Redirect,
        ..on_denial
    };
    world.tell(service(Service { on_denial, ..web() }));
    let a = a();
    for pod in [&a, &near(), &far()] {
        world.pod(pod);
    }
    list(&mut world, &[&a, &near(), &far()]);
    world.pod(&dead(&a));
    world
}

fn near() -> Pod {
    pod("shop", "near", "web", &[Y])
}

fn list(world: &mut World, pods: &[&Pod]) {
    let endpoints: Vec<_> = pods.iter().map(|pod| (pod.ips[0], Some(pod.uid))).collect();
    world.slice(&endpoints);
}

/// Where flows to X go, and what is done with the rest.
fn offered(world: &World) -> (Vec<Addr>, Option<Action>) {
    let tables = world.state.tables();
    let backends = tables
        .backends
        .iter()
        .filter(|(target, _)| target.addr == X);
    let offered =
        backends.flat_map(|(_, backends)| backends.live.iter().take(backends.count as usize));
    let denial = tables.denied.iter().find(|(target, _)| target.addr == X);
    (
        offered.map(|backend| backend.addr).collect(),
        denial.map(|(_, denial)| denial.action),
    )
}

#[test]
fn a_service_without_the_annotation_is_not_redirected() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&near());
    list(&mut world, &[&a, &near()]);
    world.pod(&dead(&a));
    assert_eq!(offered(&world), (vec![], Some(Action::Unset)));
}

#[test]
fn endpoints_of_the_same_node_come_first_and_then_those_of_the_same_zone() {
    let mut world = redirecting(OnDenial::default());
    world.pod(&dead(&near()));
    let farther = Pod {
        node: Some("node-c".into()),
        ..pod("shop", "farther", "web", &[Addr::v4([10, 244, 3, 10])])
    };
    for (name, number, zone) in [
        ("node-a", 1, "west"),
        ("node-b", 2, "west"),
        ("node-c", 3, "east"),
    ] {
        world.tell(shown_node(Node {
            zone: Some(zone.into()),
            ..node(name, number)
        }));
    }
    world.pod(&farther);
    list(&mut world, &[&far(), &farther]);
    assert_eq!(offered(&world).0, [FAR]);
    world.pod(&dead(&far()));
    assert_eq!(offered(&world).0, farther.ips.as_slice());
}

#[test]
fn flows_go_to_live_endpoints_that_are_listed_and_alone_have_their_ips_and_are_rejected_without_one()
 {
    let local = OnDenial {
        local_only: true,
        ..OnDenial::default()
    };
    let [near_is_dead, far_is_dead] = [near(), far()].map(|pod| shown(dead(&pod)));
    let listed = sliced(&[(FAR, Some(far().uid))]);
    for (sentence, on_denial, facts, expected) in [
        (
            "the node's own come first",
            OnDenial::default(),
            vec![],
            Some(Y),
        ),
        (
            "the next is another node's",
            OnDenial::default(),
            vec![near_is_dead.clone()],
            Some(FAR),
        ),
        (
            "none lives",
            OnDenial::default(),
            vec![near_is_dead.clone(), far_is_dead],
            None,
        ),
        (
            "near is terminating",
            OnDenial::default(),
            vec![shown(Pod {
                deleting: true,
                ..near()
            })],
            Some(FAR),
        ),
        (
            "near is not listed",
            OnDenial::default(),
            vec![listed],
            Some(FAR),
        ),
        (
            "another pod shows its IP",
            OnDenial::default(),
            vec![shown(pod("other", "b", "b", &[Y]))],
            Some(FAR),
        ),
        ("the policy is local", local, vec![], Some(Y)),
        ("and none is of this node", local, vec![near_is_dead], None),
    ] {
        let mut world = redirecting(on_denial);
        world.tell_all(facts);
        let action = if expected.is_some() {
            Action::Redirect
        } else {
            Action::Reject
        };
        assert_eq!(
            offered(&world),
            (Vec::from_iter(expected), Some(action)),
            "{sentence}"
        );
    }
}

/// A slice of the Service with ports of this number and these names.
fn named(slice_name: &str, endpoints: &[(Addr, Option<Uid>)], port: u16, names: &[&str]) -> Fact {
    let slice = slice(slice_name, endpoints);
    shown_slice(Slice {
        ports: names
            .iter()
            .map(|name: &&str| SlicePort {
                name: PortName::new(name),
                port,
                ..slice.ports[0]
            })
            .collect(),
        ..slice
    })
}

#[test]
fn ports_are_known_by_name_or_once_the_slices_call_one_otherwise_by_number() {
    let near = [(Y, Some(near().uid))];
    let far = [(FAR, Some(far().uid))];
    let admin = named("admin", &near, 8080, &["admin"]);
    let elsewhere = named("http", &far, 9090, &["http"]);
    for (sentence, facts, expected) in [
        (
            "of the same name",
            vec![sliced(&[(X, Some(a().uid))]), admin, elsewhere],
            Some(FAR),
        ),
        (
            "another name of the number",
            vec![named("web", &near, 8080, &["web"])],
            Some(Y),
        ),
        (
            "two names of the number",
            vec![named("web", &near, 8080, &["web", "admin"])],
            None,
        ),
    ] {
        let mut world = redirecting(OnDenial::default());
        world.tell_all(facts);
        let action = if expected.is_some() {
            Action::Redirect
        } else {
            Action::Reject
        };
        assert_eq!(
            offered(&world),
            (Vec::from_iter(expected), Some(action)),
            "{sentence}"
        );
    }
}

#[test]
fn no_flow_is_redirected_to_a_pod_of_another_namespace_that_a_slice_names() {
    let mut world = redirecting(OnDenial::default());
    let stranger = pod("other", "stranger", "web", &[Addr::v4([10, 244, 1, 12])]);
    world.pod(&stranger);
    list(&mut world, &[&a(), &far(), &stranger]);
    assert_eq!(offered(&world).0, [FAR]);
}

#[test]
fn endpoints_of_a_redirected_service_are_read_once_for_thousands_of_denials() {
    let mut world = World::cluster();
    for number in 0..4 {
        let pods: Vec<Pod> = (0..80)
            .map(|last| {
                pod(
                    "shop",
                    &format!("{number}-{last}"),
                    "web",
                    &[Addr::v4([10, 244, 10 + number, last])],
                )
            })
            .collect();
        for pod in &pods {
            world.pod(&dead(pod));
        }
        let ips: Vec<_> = pods.iter().map(|pod| (pod.ips[0], Some(pod.uid))).collect();
        let listed = slice(&format!("web-{number}"), &ips);
        let ports = (1..=50).map(|port| SlicePort {
            port,
            ..listed.ports[0]
        });
        world.tell(shown_slice(Slice {
            ports: ports.collect(),
            ..listed
        }));
    }
    let on_denial = OnDenial {
        action: Action::Redirect,
        ..OnDenial::default()
    };
    world.tell(service(Service { on_denial, ..web() }));
    let denied = &world.state.tables().denied;
    assert_eq!(denied.len(), 4 * 80 * 50);
    assert!(
        denied
            .values()
            .all(|denial| denial.action == Action::Reject)
    );
}

/// Strangers show the IPs of two dead endpoints, and a pod of the Service starts after each piece,
/// so that one of them always waits.
#[test]
fn a_service_of_which_pods_start_all_the_time_is_redirected_to_no_endpoint_that_has_died() {
    let mut world = redirecting(OnDenial::default());
    let c = pod("shop", "c", "web", &[Addr::v4([10, 244, 1, 12])]);
    world.pod(&c);
    list(&mut world, &[&a(), &near(), &far(), &c]);
    world.pod(&dead(&c)).pod(&b()).pod(&Pod {
        ips: c.ips.clone(),
        ..pod("other", "d", "d", &[])
    });
    assert_eq!(offered(&world).0, [Y]);
    world.state = std::mem::take(&mut world.state).with_piece(1);
    world.state.begin_fact(world.now, shown(dead(&near())));
    assert_eq!(world.in_force(), []);
    for number in 0..8 {
        let starts = pending("shop", &format!("starts-{number}"), "web");
        world.state.begin_fact(world.now, shown(starts));
        assert!(
            world.state.run_step(world.now, usize::MAX),
            "something waits"
        );
        if !world.in_force().is_empty() {
            assert_eq!(offered(&world).0, [FAR], "after {number} pieces");
        }
    }
    assert_ne!(world.in_force(), []);
}

#[test]
fn a_service_with_session_affinity_keeps_a_client_at_one_endpoint() {
    let sticky = |sticky| {
        let world = redirecting(OnDenial {
            sticky,
            ..OnDenial::default()
        });
        let first = world.state.tables().backends.values().next().copied();
        first.map(|backends| backends.sticky)
    };
    assert_eq!((sticky(true), sticky(false)), (Some(1), Some(0)));
}
