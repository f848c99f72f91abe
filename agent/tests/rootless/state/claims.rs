//! Claims to an IP that only an annotation makes, and what they can end for others. One story each.

use super::*;

/// A pod that no node takes: it shows the IP in Multus' annotation, and wants to be left alone.
fn unbound(name: &str) -> Pod {
    Pod {
        node: None,
        ips: Vec::new(),
        network_ips: [X].into(),
        sandbox: Sandbox::Unsettled,
        bound: Mode::Off,
        ..pod("crowd", name, "crowd", &[])
    }
}

/// The same of a pod that runs there, with an IP of that node.
fn running(name: &str, node: &str, ip: Addr) -> Pod {
    Pod {
        node: Some(node.into()),
        ips: [ip].into(),
        sandbox: Sandbox::Published,
        ..unbound(name)
    }
}

#[test]
fn a_pod_that_no_node_takes_ends_no_denial_of_others() {
    let (mut world, _) = World::where_a_died();
    let proven = |world: &World| (world.reasons(), world.is_orphan(X), world.carried_out());
    assert_eq!(proven(&world), (vec![DeadBackend], true, vec![X]));
    for name in ["c", "d"] {
        world.pod(&unbound(name));
        assert_eq!(proven(&world), (vec![DeadBackend], true, vec![X]), "{name}");
        assert_eq!(world.state.owners().count(), 0, "{name}");
    }
    world.pod(&b());
    assert_eq!(
        (world.reasons(), world.denials()[0].owner),
        (vec![Reused], Some(b().uid))
    );
}

#[test]
fn a_pod_of_another_node_ends_no_denial() {
    let (mut world, _) = World::where_a_died();
    world.pod(&running("c", "node-b", FAR)).denies(&[Reused]);
    assert!(world.is_orphan(X));
}

#[test]
fn a_pod_of_the_same_node_ends_no_denial_through_services_and_does_not_bound_it() {
    let (mut world, _) = World::where_a_died();
    world.pod(&running("c", "node-a", Y));
    world.pod(&running("d", "node-a", Y));
    assert_eq!(
        (world.reasons(), world.carried_out()),
        (vec![Reused], vec![X])
    );
    assert!(!world.is_orphan(X), "one of them may hold it");
}

#[test]
fn an_annotation_lifts_no_protection_of_a_pod_that_sent_from_the_ip() {
    let (mut world, _) = World::where_a_died();
    world.tell(Fact::Presence(Presence::Spoke(X, world.now)));
    let lifted = |world: &World| {
        world
            .state
            .tables()
            .terminated
            .get(&X)
            .map(|orphan_ip| orphan_ip.lifted.is_some())
    };
    assert_eq!(lifted(&world), Some(true));
    world.pod(&running("c", "node-b", FAR));
    assert_eq!(lifted(&world), Some(true), "it would be denied otherwise");
}

#[test]
fn a_pod_of_the_service_may_hold_the_ip_on_every_node_but_not_without_one() {
    for (own, reasons) in [
        (running("c", "node-a", Y), &[][..]),
        (running("c", "node-b", FAR), &[]),
        (unbound("c"), &[DeadBackend]),
    ] {
        let name = ObjectName::new("shop", "c");
        let labels = [("app", "web")].into_iter().collect();
        let own = Pod {
            bound: Mode::Enforce,
            name,
            labels,
            ..own
        };
        let (mut world, _) = World::where_a_died();
        world.pod(&own).denies_as(&format!("{own:?}"), reasons);
    }
}

#[test]
fn an_annotation_ends_no_denial_of_a_retired_pod() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a));
    for pod in [
        unbound("c"),
        running("d", "node-b", FAR),
        running("e", "node-a", Y),
    ] {
        world.pod(&pod).denies(&[RetiredBackend]);
    }
}

/// A showed the IP, then another one, then the first again; B had it in between.
#[test]
fn a_claim_that_came_again_is_later_than_one_that_came_in_between() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&Pod {
        ips: [Y].as_slice().into(),
        ..a.clone()
    });
    world.pod(&pod("other", "b", "b", &[X]));
    world.pod(&a);
    world.pod(&terminal(&a)).denies(&[]);
    world.pod(&dead(&a)).denies(&[Reused]);
}

#[test]
fn a_denial_at_an_ip_that_the_meant_pod_never_had_as_its_pod_ip_is_only_observed() {
    let mut world = World::cluster();
    let a = Pod {
        network_ips: [X].into(),
        ..pod("shop", "a", "web", &[Y])
    };
    world.pod(&a);
    world.slice(&[(X, Some(a.uid))]);
    world.pod(&dead(&a));
    let modes = |world: &World| {
        world
            .state
            .denials()
            .map(|(_, _, proven)| proven.mode)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (world.reasons(), modes(&world)),
        (vec![DeadBackend], vec![Mode::Observe])
    );
    let (world, _) = World::where_a_died();
    assert_eq!(modes(&world), [Mode::Enforce]);
}

#[test]
fn a_pod_keeps_claims_to_the_ips_that_it_published_and_to_those_that_its_annotation_shows() {
    let mut world = World::cluster();
    let ip = |last: u8| Addr::v4([192, 0, 2, last]);
    let mut shows = |published: u8, annotated: u8| {
        let shown = Pod {
            network_ips: [ip(annotated)].into(),
            ..pod("shop", "a", "web", &[ip(published)])
        };
        world.pod(&shown);
        let claims = &world.state.cluster().pods.get(shown.uid).unwrap().claims;
        claims
            .iter()
            .map(|(ip, _)| ip.octets[15])
            .collect::<Vec<u8>>()
    };
    assert_eq!(shows(1, 100), [1, 100]);
    assert_eq!(shows(1, 101), [1, 101]);
    assert_eq!(shows(2, 101), [1, 2, 101]);
    for published in 3..=64 {
        shows(published, 101);
    }
    assert_eq!(shows(65, 101), [65, 101], "no pod has had so many");
}
