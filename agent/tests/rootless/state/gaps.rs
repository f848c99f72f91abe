//! What a list shows after a gap (410, reconnect, restart): mark and sweep, and nothing is proven
//! by what is missing.

use super::*;

#[test]
fn when_the_api_went_back_in_time_nothing_is_denied_and_a_restored_pod_may_live_again() {
    let (mut world, a) = World::where_a_died();
    world.denies(&[DeadBackend]);
    world.state.start_over(world.now);
    assert_eq!(world.in_force(), []);
    while world.state.run_step(world.now, 1) {}
    assert!(!world.state.is_synced() && world.state.tables().denied.is_empty());
    assert_eq!(world.state.owners().count(), 0);
    list_everything(&mut world, std::slice::from_ref(&a));
    world.slice(&[(X, Some(a.uid))]).denies(&[]);
    assert!(world.state.is_synced());
    world.pod(&dead(&a)).denies(&[DeadBackend]);
}

/// The node's own interfaces have the address that its object shows.
#[test]
fn node_ports_are_denied_again_after_a_start_over() {
    let (mut world, a) = World::where_a_died();
    world.tell(Fact::LocalAddresses(node("node-a", 1).addresses));
    let vips = |world: &World| {
        world
            .state
            .tables()
            .services
            .keys()
            .copied()
            .collect::<Vec<_>>()
    };
    let before = vips(&world);
    let node_ports = 3;
    let cluster_ip = 1;
    assert_eq!(before.len(), node_ports + cluster_ip, "{before:?}");
    world.state.start_over(world.now);
    list_everything(&mut world, std::slice::from_ref(&a));
    world.slice(&[(X, Some(a.uid))]);
    world.pod(&dead(&a)).denies(&[DeadBackend]);
    assert_eq!(vips(&world), before);
}

/// Lists everything again, with these pods.
fn list_everything(world: &mut World, pods: &[Pod]) {
    world.list_all_but_pods();
    world.list(pods);
}

#[test]
fn an_event_of_a_dead_pod_alive_means_that_the_api_went_back_in_time() {
    let (mut world, pods) = World::cluster().with_backends(2);
    let [a, other] = pods.try_into().unwrap();
    world.pod(&dead(&other));
    world.pod(&dead(&a));
    assert_eq!(world.reasons().len(), 2);
    world.pod(&a);
    assert_eq!(world.state.take_revived(), Some(a.name.clone()));
    assert_eq!(world.state.take_revived(), None, "once");
    assert!(!world.state.is_synced() && world.state.tables().denied.is_empty());
    list_everything(&mut world, &[a.clone(), other.clone()]);
    world.slice(&[(X, Some(a.uid)), (Y, Some(other.uid))]);
    assert!(world.state.is_synced());
    assert_eq!(
        world.reasons(),
        [],
        "the other death happened after the backup too"
    );
}

/// A is dead and its object is gone; a dead pod of another namespace was shown alive.
fn after_a_revival_elsewhere() -> (World, Pod, Pod) {
    let (mut world, a) = World::cluster().with_a();
    let c = pod("other", "c", "c", &[Y]);
    world.pod(&dead(&c));
    world.pod(&dead(&a));
    world.deleted(&dead(&a)).denies(&[DeadBackend]);
    world.pod(&c);
    assert_eq!(world.state.take_revived(), Some(c.name.clone()));
    assert_eq!(world.reasons(), []);
    (world, a, c)
}

#[test]
fn a_death_stays_proven_through_a_start_over_if_the_new_lists_lack_the_pod() {
    let (mut world, a, c) = after_a_revival_elsewhere();
    list_everything(&mut world, &[c]);
    assert_eq!(
        world.reasons(),
        [DeadBackend],
        "the Service listed it not long ago"
    );
    assert!(world.state.tables().terminated.contains_key(&X));
    world.slice(&[(X, Some(a.uid))]).denies(&[DeadBackend]);
}

#[test]
fn a_death_is_void_if_the_pod_was_shown_at_any_time_since_the_start_over() {
    let (mut world, a, c) = after_a_revival_elsewhere();
    list_everything(&mut world, &[c.clone(), a.clone()]);
    world
        .slice(&[(X, Some(a.uid))])
        .denies_as("the new lists show it", &[]);
    let (mut world, a, c) = after_a_revival_elsewhere();
    world.pod(&a);
    world.tell(Fact::Pod(Change::Deleted(a.clone())));
    list_everything(&mut world, &[c]);
    world
        .slice(&[(X, Some(a.uid))])
        .denies_as("an event has shown it", &[]);
}

#[test]
fn repeated_revivals_in_one_namespace_cause_one_start_over() {
    let (mut world, a) = World::where_a_died();
    world.pod(&a);
    assert_eq!(world.state.take_revived(), Some(a.name.clone()));
    list_everything(&mut world, std::slice::from_ref(&a));
    let other = pod("shop", "other", "web", &[Y]);
    world.pod(&other);
    world.slice(&[(X, Some(a.uid)), (Y, Some(other.uid))]);
    world.pod(&dead(&other));
    for _ in 0..3 {
        world.pod(&dead(&a));
        assert_eq!(world.reasons().len(), 2);
        world.pod(&a);
        assert_eq!(world.state.take_revived(), None);
        assert_eq!(
            world.carried_out(),
            [Y],
            "the revived pod is spared, the others are protected"
        );
    }
}

#[test]
fn revivals_cause_as_many_start_overs_as_there_are_namespaces_with_one() {
    let mut world = World::cluster();
    for number in 0..5 {
        let a = pod(&format!("of-{number}"), "a", "a", &[X]);
        for shown in [a.clone(), dead(&a), a.clone()] {
            world.pod(&shown);
        }
        assert_eq!(world.state.take_revived(), Some(a.name.clone()));
        world.pod(&dead(&a)).pod(&a);
        assert_eq!(
            world.state.take_revived(),
            None,
            "nothing is listed yet, so that it is not known to be dead"
        );
        list_everything(&mut world, std::slice::from_ref(&a));
        world.pod(&dead(&a)).pod(&a);
        assert_eq!(
            world.state.take_revived(),
            None,
            "its namespace has caused one"
        );
    }
}

#[test]
fn a_pod_that_comes_back_during_the_pause_may_hold_the_ip_of_another_dead_one() {
    for again in [pod("shop", "b", "web", &[X]), pending("shop", "b", "web")] {
        let (mut world, a) = World::cluster().with_a();
        let b = pod("shop", "b", "web", &[Y]);
        let c = pod("shop", "c", "web", &[Y]);
        world.pod(&dead(&c));
        world.pod(&c);
        assert_eq!(world.state.take_revived(), Some(c.name.clone()));
        list_everything(&mut world, &[a.clone(), b.clone()]);
        world.slice(&[(X, Some(a.uid))]);
        world.pod(&dead(&a));
        world.pod(&dead(&b)).denies(&[DeadBackend]);
        world.pod(&again);
        assert_eq!(world.state.take_revived(), None, "within the pause");
        assert_eq!(world.reasons(), [], "{again:?}");
    }
}

#[test]
fn a_dead_pod_that_a_list_shows_alive_on_another_ip_is_not_denied_there() {
    let (mut world, a) = World::where_a_died();
    world.deleted(&dead(&a));
    let again = Pod {
        ips: [Y].into(),
        ..a.clone()
    };
    world.list_slices(&[(Y, Some(a.uid))]);
    world.list(std::slice::from_ref(&again));
    assert_eq!(world.state.take_revived(), Some(a.name.clone()));
    assert_eq!(world.reasons(), []);
    list_everything(&mut world, &[again]);
    world.slice(&[(Y, Some(a.uid))]).denies(&[]);
}

/// A list in which the pod that contradicts a denial comes last.
#[test]
fn a_list_that_is_applied_in_parts_ends_denials_at_once_and_begins_none_before_its_end() {
    let (mut world, pods) = World::cluster().with_backends(2);
    let [a, b] = pods.try_into().unwrap();
    world.pod(&dead(&b)).denies(&[DeadBackend]);
    let y = pod("shop", "c", "web", &[Y]);
    let x = pod("shop", "d", "web", &[X]);
    let list = Fact::Pod(Change::Reset(vec![dead(&a), dead(&b), y, x]));
    world.state.begin_fact(world.now, list);
    let mut parts = 0;
    while world.state.run_step(world.now, 1) {
        parts += 1;
        // The first part shows A dead: the Service waits for its judgement at the end.
        assert_eq!(world.in_force(), [], "part {parts}");
    }
    assert!(parts >= 4);
    assert_eq!(world.reasons(), []);
}

#[test]
fn the_pod_that_had_the_ip_after_the_dead_pod_keeps_it_through_a_start_over() {
    for came_later in [false, true] {
        let mut world = World::cluster();
        let a = pod("shop", "a", "web", &[X]);
        world.pod(&a);
        let a = dead(&a);
        world.pod(&a);
        if came_later {
            world.pod(&pod("other", "b", "b", &[X]));
        }
        let list = [a];
        world.list(&list);
        world.state.start_over(world.now);
        world.list_all_but_pods();
        world.list(&list);
        world.list(&list);
        assert_eq!(world.state.tables().terminated.is_empty(), came_later);
    }
}

#[test]
fn a_denial_that_was_not_judged_while_everything_was_listed_anew_rests_on_one_list() {
    let mut world = World::cluster();
    let pods = (0..2_000_u16).map(|number| {
        let [high, low] = number.to_be_bytes();
        pod(
            "shop",
            &format!("pod-{number}"),
            "web",
            &[Addr::v4([10, 245, high, low])],
        )
    });
    let pods: Vec<Pod> = pods.collect();
    world.list(&pods);
    world.slice(&endpoints(&pods));
    let pods: Vec<Pod> = pods
        .iter()
        .enumerate()
        .map(|(number, it)| if number < 900 { dead(it) } else { it.clone() })
        .collect();
    for pod in &pods[..900] {
        world.pod(pod);
    }
    assert_eq!((world.carried_out().len(), world.stopped().len()), (900, 0));
    world.state.start_over(world.now);
    // Each list comes while most of the denials wait.
    for fact in [
        Fact::Namespace(Change::Reset(vec![namespace("shop", Mode::Enforce)])),
        Fact::Node(Change::Reset(vec![node("node-a", 1)])),
        Fact::Service(Change::Reset(vec![web()])),
        Fact::Slice(Change::Reset(vec![slice("web", &endpoints(&pods))])),
        Fact::Pod(Change::Reset(pods)),
    ] {
        world.state.begin_fact(world.now, fact);
        while world.state.is_half_applied() {
            world.state.run_step(world.now, 512);
        }
    }
    while world.state.run_step(world.now, 512) {}
    assert_eq!((world.carried_out().len(), world.stopped().len()), (0, 900));
    assert_eq!(
        world.state.stopped_services(world.now).len(),
        1,
        "they wait for a second list"
    );
}
