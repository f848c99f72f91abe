//! Who may ask to be spared, and what comes of it: annotations, ranges, and IPs that outlive their
//! pods.

use super::*;
use Mode::{Enforce, Observe, Off};

/// The bound of the only denial.
fn bound(world: &World) -> Option<Mode> {
    let bounds: Vec<Mode> = world
        .state
        .denials()
        .map(|(_, _, proven)| proven.mode)
        .collect();
    let written: Vec<Mode> = world
        .state
        .tables()
        .denied
        .values()
        .map(|denial| denial.mode)
        .collect();
    assert_eq!(bounds, written, "what is proven is what is written");
    assert!(bounds.len() <= 1, "{bounds:?}");
    bounds.first().copied()
}

/// B of another namespace has the IP of A, which is dead; each of the five is bounded.
fn reused([shop, service, meant, other, hit]: [Mode; 5]) -> Option<Mode> {
    let (mut world, a) = World::cluster().with_a();
    world
        .tell(shown_namespace("shop", shop))
        .tell(shown_namespace("other", other));
    world.tell(Fact::Service(Change::Applied(Service {
        bound: service,
        ..web()
    })));
    world.pod(&Pod {
        bound: meant,
        ..dead(&a)
    });
    world.pod(&Pod {
        bound: hit,
        ..pod("other", "b", "b", &[X])
    });
    bound(&world)
}

#[test]
fn the_lowest_mode_of_namespaces_service_and_pods_applies() {
    assert_eq!(reused([Enforce; 5]), Some(Enforce));
    for (number, (mode, lowest)) in
        (0..5).flat_map(|n| [(Observe, Some(Observe)), (Off, None)].map(|m| (n, m)))
    {
        let mut all = [Enforce; 5];
        all[number] = mode;
        assert_eq!(reused(all), lowest, "{number}");
    }
    assert_eq!(reused([Observe, Enforce, Enforce, Enforce, Off]), None);
    assert_eq!(reused([Observe, Enforce, Off, Enforce, Observe]), None);
}

#[test]
fn an_annotation_counts_as_soon_as_it_is_seen_and_no_longer_than_it_stays() {
    let (mut world, _) = World::where_a_died();
    assert_eq!(bound(&world), Some(Enforce));
    for (mode, expected) in [
        (Observe, Some(Observe)),
        (Off, None),
        (Enforce, Some(Enforce)),
    ] {
        world.tell(shown_namespace("shop", mode));
        assert_eq!(bound(&world), expected, "{mode:?}");
    }
    // A pod of an unknown namespace has the IP.
    world.pod(&pod("new", "b", "b", &[X]));
    let deleted = Fact::Namespace(Change::Deleted(namespace("new", Enforce)));
    let without_shop = Fact::Namespace(Change::Reset(vec![namespace("new", Enforce)]));
    for (sentence, fact, expected) in [
        ("unknown", shown_namespace("other", Enforce), Observe),
        ("known", shown_namespace("new", Enforce), Enforce),
        ("deleted", deleted, Observe),
        ("shop is not in the list", without_shop, Observe),
    ] {
        world.tell(fact);
        assert_eq!(bound(&world), Some(expected), "{sentence}");
    }
}

#[test]
fn the_mode_of_an_orphan_ip_follows_its_dead_pod_and_never_rises() {
    let (mut world, a) = World::where_a_died();
    let listed = |world: &World| {
        world
            .state
            .tables()
            .terminated
            .get(&X)
            .map(|orphan_ip| (orphan_ip.dead, orphan_ip.mode))
    };
    assert_eq!(listed(&world), Some((a.uid, Enforce)));
    world.tell(shown_namespace("shop", Observe));
    assert_eq!(listed(&world), Some((a.uid, Observe)));
    world.tell(shown_namespace("shop", Enforce));
    assert_eq!(
        listed(&world),
        Some((a.uid, Observe)),
        "a new entry would forget who has just spoken"
    );
    world.pod(&Pod {
        bound: Off,
        ..dead(&a)
    });
    assert_eq!(listed(&world), None);
}

#[test]
fn endpoints_outside_of_the_operators_ranges_are_left_alone() {
    let denied = |protect: &[&str], exclude: &[&str]| {
        let parse = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| Cidr::parse(text).unwrap())
                .collect()
        };
        let ranges = Ranges {
            protect: parse(protect),
            exclude: parse(exclude),
        };
        let settings = Settings {
            ranges,
            ..settings()
        };
        let (mut world, a) = World::with(settings).with_a();
        world.pod(&dead(&a));
        let terminated = !world.state.tables().terminated.is_empty();
        assert_eq!(terminated, !world.reasons().is_empty());
        terminated
    };
    assert!(denied(&[], &[]));
    assert!(denied(&["10.244.0.0/16"], &["10.244.1.128/25"]));
    assert!(
        !denied(&["10.244.0.0/16"], &["10.244.1.0/24"]),
        "an excluded range comes first"
    );
    assert!(!denied(&[], &["10.244.1.10/32"]));
    assert!(!denied(&["10.244.2.0/24", "fd00::/8"], &[]));
}

#[test]
fn the_death_of_a_pod_with_a_static_ip_proves_nothing() {
    let (mut world, a) = World::cluster().with_a();
    let fixed = Pod {
        static_ip: true,
        ..dead(&a)
    };
    world.pod(&fixed);
    assert_eq!(
        (world.reasons(), world.state.tables().terminated.len()),
        (vec![], 0)
    );
    world
        .slice(&[])
        .denies_as("nor once it is listed no more", &[]);
    let (mut world, _) = World::where_a_died();
    world.pod(&Pod {
        static_ip: true,
        ..b()
    });
    assert_eq!(
        world.reasons(),
        [Reason::Reused],
        "a live one is denied for reuse alone"
    );
}

#[test]
fn an_ip_on_another_network_is_owned_by_its_pod_and_is_no_conflict_or_proof_against_one_that_may_run()
 {
    let owner = |world: &mut World| {
        let (owners, _) = world.state.take_owners(usize::MAX);
        owners.get(&X).map(|owner| (owner.uid, owner.flags))
    };
    let attached = Pod {
        network_ips: [Y, X].into(),
        ..pod("other", "b", "b", &[Y])
    };
    let (mut world, _) = World::where_a_died();
    world.pod(&attached).denies(&[Reason::Reused]);
    assert_eq!(world.denials()[0].owner, Some(attached.uid));
    assert!(!world.is_orphan(X), "it is in use");
    assert_eq!(owner(&mut world), Some((attached.uid, 0)));
    world
        .tell(Fact::Pod(Change::Deleted(attached.clone())))
        .denies(&[Reason::DeadBackend]);

    let (mut world, a) = World::cluster().with_a();
    world.pod(&attached);
    assert_eq!(world.state.live_claimants(X).count(), 1);
    assert_eq!(owner(&mut world), Some((a.uid, 0)), "networks may overlap");

    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a)).denies(&[Reason::RetiredBackend]);
    world
        .pod(&attached)
        .denies_as("the packet is for neither", &[Reason::RetiredBackend]);
    world
        .pod(&pod("other", "b", "b", &[X]))
        .denies_as("now it is a podIP", &[Reason::Reused]);
}
