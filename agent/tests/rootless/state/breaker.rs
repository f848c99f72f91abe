//! Stopped denials: only one list shows them, or they are too many at once. One story each.

use super::*;
use epguard_core::facts::BreakerRelease;
use std::collections::BTreeSet;

const PODS: Watched = Watched::Pods;

fn all(pods: &[Pod], change: fn(&Pod) -> Pod) -> Vec<Pod> {
    pods.iter().map(change).collect()
}

#[test]
fn the_only_replica_is_denied_at_once_if_its_death_is_an_event() {
    let (mut world, _) = World::where_a_died();
    assert_eq!((world.carried_out(), world.stopped()), (vec![X], vec![]));
    world.pod(&pod("other", "b", "b", &[X]));
    assert_eq!(
        (world.carried_out(), world.reasons()),
        (vec![X], vec![Reused])
    );
    assert_eq!(world.state.wanted_lists(), BTreeSet::new());
}

#[test]
fn denials_from_a_list_of_failed_pods_wait_for_a_second_list() {
    for change in [terminal, dead] {
        let (mut world, pods) = World::cluster().with_backends(4);
        world.list(&all(&pods, change)).denies_and_stops(0, 4);
        assert_eq!(
            world.state.wanted_lists(),
            BTreeSet::from([PODS, Watched::EndpointSlices])
        );
        world.list(&all(&pods, change));
        assert_eq!(
            world.stopped().len(),
            4,
            "the slices list them: a second list of those too"
        );
        assert_eq!(
            world.state.wanted_lists(),
            BTreeSet::from([Watched::EndpointSlices])
        );
        world.list_slices(&endpoints(&pods)).denies_and_stops(4, 0);
        let (mut world, pods) = World::cluster().with_backends(4);
        world.slice(&[]);
        world.list(&all(&pods, change));
        assert_eq!(
            (world.carried_out().len(), world.stopped().len()),
            (0, 4),
            "not listed"
        );
        assert_eq!(world.state.wanted_lists(), BTreeSet::from([PODS]));
        world.list(&all(&pods, change));
        assert_eq!(
            (world.carried_out().len(), world.stopped().len()),
            (4, 0),
            "not listed"
        );
    }
}

#[test]
fn a_second_list_that_disagrees_drops_pending_denials_and_deaths() {
    for change in [terminal, dead] {
        let (mut world, pods) = World::cluster().with_backends(4);
        world.list(&all(&pods, change));
        world.list(&pods).denies(&[]);
        assert_eq!(world.state.wanted_lists(), BTreeSet::new());
        world
            .list(&all(&pods, change))
            .list(&[])
            .denies_as("a list without the pods", &[]);
        world.list(&pods);
        world.list(&all(&pods, change));
        assert_eq!(world.stopped().len(), 4, "a third one begins anew");
        assert!(world.state.wanted_lists().contains(&PODS));
    }
}

#[test]
fn a_denial_that_one_list_began_is_stopped_and_one_from_before_stays_in_force() {
    let b = pod("shop", "b", "web", &[X]);
    let is_dead = shown(dead(&a()));
    let is_listed = list_of(&[dead(&a())]);
    let lacks_b = [is_dead.clone(), shown(b.clone()), is_listed.clone()];
    let with_b = list_of(&[dead(&a()), b.clone()]);
    let holder = list_of(&[dead(&a()), pending("shop", "b", "web")]);
    let elsewhere = shown(pod("shop", "b", "web", &[Y]));
    let withdrawn = [shown(b.clone()), Fact::Pod(Change::Deleted(b.clone()))];
    for (sentence, facts, carried_out, stopped) in [
        (
            "it was in force before",
            vec![is_dead, is_listed.clone()],
            1,
            0,
        ),
        (
            "the pod was retired before",
            vec![shown(terminal(&a())), is_listed],
            0,
            1,
        ),
        ("the list lacks the live owner", lacks_b.to_vec(), 0, 1),
        (
            "the next list shows it",
            [&lacks_b[..], &[with_b]].concat(),
            0,
            0,
        ),
        (
            "a possible holder delayed it",
            vec![holder.clone(), elsewhere],
            0,
            1,
        ),
        ("the possible holder may be there", vec![holder], 0, 0),
        ("withdrawn", [&lacks_b[..], &withdrawn[..1]].concat(), 0, 0),
        (
            "withdrawn, and proven again",
            [&lacks_b[..], &withdrawn].concat(),
            0,
            1,
        ),
    ] {
        let (mut world, _) = World::cluster().with_a();
        world.tell_all(facts);
        assert_eq!(
            (world.carried_out().len(), world.stopped().len()),
            (carried_out, stopped),
            "{sentence}"
        );
        assert_eq!(world.reasons().len(), carried_out + stopped, "{sentence}");
    }
}

#[test]
fn denials_of_more_than_half_at_once_wait_even_after_events() {
    let (mut world, pods) = World::cluster().with_backends(5);
    for pod in &pods {
        world.pod(&terminal(pod));
    }
    assert_eq!((world.carried_out().len(), world.stopped().len()), (2, 3));
    let now = world.now;
    let services = world.state.stopped_services(now);
    let service = services.values().next().unwrap();
    assert_eq!(
        (
            service.stopped,
            service.denied,
            service.ready_recently,
            service.reason
        ),
        (3, 5, 5, StopReason::MoreThanHalf)
    );
    assert!(service.is_a_mass());
    world.list(&all(&pods, terminal));
    world.list_slices(&endpoints(&pods)).denies_and_stops(5, 0);
}

#[test]
fn endpoints_unready_for_five_minutes_do_not_count_for_the_half() {
    let (mut world, pods) = World::cluster().with_backends(4);
    world.slice(&endpoints(&pods[..2]));
    world.now += Duration::from_mins(6);
    world.pod(&terminal(&pods[2]));
    world.pod(&terminal(&pods[3]));
    assert_eq!(world.carried_out().len(), 2);
    world.pod(&terminal(&pods[0]));
    world.pod(&terminal(&pods[1])).denies_and_stops(3, 1);
}

#[test]
fn dead_pods_that_no_slice_lists_do_not_count_for_the_half() {
    let (mut world, pods) = World::cluster().with_backends(4);
    for pod in &pods {
        world.pod(&dead(pod));
    }
    assert_eq!((world.carried_out().len(), world.stopped().len()), (2, 2));
    world.slice(&[]).denies_and_stops(4, 0);
}

/// Replaces 50 pods one by one; the ends of the old ones are shown by these.
fn rolling_update(ends: &[fn(&Pod) -> Fact]) -> World {
    let (mut world, mut pods) = World::cluster().with_backends(50);
    for number in 0..50 {
        let new = backend(100 + number);
        world.pod(&new);
        let old = std::mem::replace(&mut pods[usize::from(number)], new);
        world.slice(&endpoints(&pods));
        for end in ends {
            world.tell(end(&old));
            assert_eq!(world.stopped(), [], "after {number}");
        }
    }
    world
}

#[test]
fn the_breaker_never_stops_a_rolling_update() {
    let ends: &[fn(&Pod) -> Fact] = &[
        |old| shown(terminal(old)),
        |old| shown(dead(old)),
        |old| gone(&dead(old)),
    ];
    let of_an_old_kubelet: &[fn(&Pod) -> Fact] = &[gone];
    for ends in [ends, of_an_old_kubelet] {
        assert_eq!(
            rolling_update(ends).carried_out().len(),
            50,
            "{} facts",
            ends.len()
        );
    }
}

#[test]
fn the_first_lists_of_an_agent_count_as_one_list() {
    let (_, a) = World::cluster().with_a();
    let mut world = World::cluster();
    world.state = State::new(settings());
    world.tell(Fact::Namespace(Change::Reset(vec![namespace(
        "shop",
        Mode::Enforce,
    )])));
    let tell = |world: &mut World| {
        world.list_slices(&[(X, Some(a.uid))]);
        world.list(&[dead(&a)]);
    };
    tell(&mut world);
    world.tell(Fact::Service(Change::Reset(vec![web()])));
    world.tell(Fact::Node(Change::Reset(vec![node("node-a", 1)])));
    assert_eq!((world.carried_out(), world.stopped()), (vec![], vec![X]));
    assert_eq!(
        world.state.wanted_lists(),
        BTreeSet::from([PODS, Watched::EndpointSlices])
    );
    tell(&mut world);
    assert_eq!((world.carried_out(), world.stopped()), (vec![X], vec![]));
}

/// A release of the mode policy stays in its `ConfigMap`.
#[test]
fn a_release_by_resource_version_carries_out_what_was_stopped_by_then_and_nothing_later() {
    let (mut world, pods) = World::cluster().with_backends(8);
    world.state.see_resource_version(10);
    let half_dead = [all(&pods[..4], dead), pods[4..].to_vec()].concat();
    world.list(&half_dead);
    assert_eq!(world.stopped().len(), 4);
    let release = |text: &str| BreakerRelease::parse(text).unwrap();
    assert_eq!(world.state.release_stopped(&release("9")), 0, "before");
    assert_eq!(world.state.release_stopped(&release("10 shop/other")), 0);
    assert_eq!(world.state.release_stopped(&release("10 shop/web")), 4);
    assert_eq!((world.carried_out().len(), world.stopped().len()), (4, 0));

    world.state.see_resource_version(11);
    world.state.see_resource_version(7);
    world.list(&all(&pods, dead));
    assert_eq!((world.carried_out().len(), world.stopped().len()), (4, 4));
    let now = world.state.stopped_services(world.now);
    let versions: Vec<u64> = now
        .values()
        .map(|service| service.resource_version)
        .collect();
    assert_eq!(versions, [11], "the newest that was seen");
    for left in ["10", "10 shop/web"] {
        assert_eq!(world.state.release_stopped(&release(left)), 0, "{left}");
    }
    assert_eq!(world.stopped().len(), 4);
}

/// `kubectl epguard breaker` does not show it, so no operator has agreed to it.
#[test]
fn a_release_leaves_stopped_what_is_not_proven_at_that_moment() {
    let (mut world, pods) = World::cluster().with_backends(4);
    world.state.see_resource_version(10);
    world.list(&all(&pods, dead));
    world.pod(&pending("shop", "next", "web"));
    assert_eq!((world.carried_out().len(), world.stopped().len()), (0, 0));
    let release = BreakerRelease::parse("10").unwrap();
    assert_eq!(world.state.release_stopped(&release), 0);
    let elsewhere = Addr::v4([10, 244, 9, 9]);
    world.pod(&pod("shop", "next", "web", &[elsewhere]));
    assert_eq!((world.carried_out().len(), world.stopped().len()), (0, 4));
}

#[test]
fn an_operator_can_release_stopped_denials() {
    let (mut world, pods) = World::cluster().with_backends(4);
    world.list(&all(&pods, dead));
    let other = ObjectName::new("shop", "other");
    assert_eq!(world.state.release_breaker(world.now, Some(&other)), 0);
    assert_eq!(world.stopped().len(), 4);
    assert_eq!(world.state.release_breaker(world.now, None), 4);
    assert_eq!((world.carried_out().len(), world.stopped().len()), (4, 0));
}
