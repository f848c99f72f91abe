//! Which pods may hold an IP, and what their ends prove. One story each.

use super::world::{World, X, Y, dead, pending, pod, terminal};
use epguard_common::Reason::{DeadBackend, RetiredBackend, Reused};
use epguard_common::{Addr, UidState};
use epguard_core::facts::{Change, Fact, Pod, Sandbox};

#[test]
fn a_pod_of_the_service_that_shows_no_ip_yet_may_hold_any() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&pending("shop", "b", "web"));
    world.pod(&dead(&a));
    assert_eq!(world.reasons(), []);
    world.pod(&pod("shop", "b", "web", &[Y]));
    assert_eq!(world.reasons(), [DeadBackend], "once it shows another IP it doesn't hold this one");
}

#[test]
fn a_pending_pod_of_another_service_is_no_possible_holder() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&pending("other", "c", "c"));
    world.pod(&dead(&a));
    assert_eq!(world.reasons(), [DeadBackend]);
}

#[test]
fn a_pod_with_more_addresses_than_are_read_may_hold_any() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.pod(&Pod { partial: true, ..pod("shop", "b", "web", &[Y]) });
    assert_eq!(world.reasons(), []);
    assert_eq!(world.state.report().partial(), (1, vec!["Pod shop/b".to_owned()]));
}

#[test]
fn a_pod_whose_sandbox_restarts_may_hold_another_ip_than_it_shows() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&Pod { sandbox: Sandbox::Unsettled, ..pod("shop", "b", "web", &[Y]) });
    world.pod(&dead(&a));
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_retired_pod_gets_no_new_flow() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a));
    assert_eq!(world.denials(), [(X, RetiredBackend, UidState::Retired, a.uid, None)]);
    world.pod(&a);
    assert_eq!(world.reasons(), [], "seen alive again");
}

#[test]
fn a_dead_pod_whose_conditions_change_stays_dead() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.pod(&terminal(&a));
    assert_eq!(world.state.take_revived(), None);
    assert_eq!(world.reasons(), [DeadBackend]);
}

#[test]
fn a_force_deleted_pod_is_only_retired() {
    let (mut world, a) = World::cluster().with_a();
    world.deleted(&a);
    assert_eq!(world.denials(), [(X, RetiredBackend, UidState::Retired, a.uid, None)]);
}

#[test]
fn a_delete_event_without_a_deletion_timestamp_proves_nothing() {
    let (mut world, a) = World::cluster().with_a();
    world.tell(Fact::Pod(Change::Deleted(a)));
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_mirror_pod_is_never_judged() {
    let mut world = World::cluster();
    let a = Pod { mirror: true, ..pod("shop", "a", "web", &[X]) };
    world.pod(&a);
    world.slice(&[(X, Some(a.uid))]);
    world.pod(&terminal(&a));
    assert_eq!(world.reasons(), []);
    world.deleted(&a);
    assert_eq!(world.reasons(), []);
}

#[test]
fn for_a_retired_pod_only_a_claim_that_came_later_counts() {
    let mut world = World::cluster();
    let (a, b) = (pod("shop", "a", "web", &[X]), pod("other", "b", "b", &[X]));
    world.pod(&b);
    world.pod(&a);
    world.slice(&[(X, Some(a.uid))]);
    world.pod(&terminal(&a));
    assert_eq!(world.reasons(), [], "b was there first");

    let (mut world, a) = World::cluster().with_a();
    world.pod(&b);
    world.pod(&terminal(&a));
    assert_eq!(world.denials(), [(X, Reused, UidState::Retired, a.uid, Some(b.uid))]);
    world.tell(Fact::Pod(Change::Reset(vec![terminal(&a), b])));
    assert_eq!(world.reasons(), [], "a list doesn't say who came first");
}

#[test]
fn a_pod_that_vanished_in_a_gap_is_not_proven_dead() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a));
    world.tell(Fact::Pod(Change::Reset(vec![])));
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_death_from_before_the_gap_stays_proven() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.tell(Fact::Pod(Change::Reset(vec![])));
    assert_eq!(world.reasons(), [DeadBackend]);
}

#[test]
fn a_live_pod_that_moved_to_another_ip_causes_no_denial() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&Pod { ips: [Y].into(), ..a.clone() });
    world.slice(&[(Y, Some(a.uid))]);
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_retired_pod_of_the_service_that_claims_the_ip_keeps_its_flows() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.pod(&terminal(&pod("shop", "c", "web", &[X])));
    assert_eq!(world.denials(), [(X, RetiredBackend, UidState::Retired, a.uid, None)]);
}

#[test]
fn the_owners_of_an_ip_are_counted_across_its_idle_time() {
    let (mut world, a) = World::cluster().with_a();
    let generation =
        |world: &mut World| world.state.take_owners(usize::MAX).0.get(&X).map(|owner| owner.generation);
    assert_eq!(generation(&mut world), Some(1));
    world.pod(&dead(&a));
    assert_eq!(generation(&mut world), None);
    world.pod(&pod("other", "b", "b", &[X]));
    assert_eq!(generation(&mut world), Some(2));
}

/// A redirected flow may lead to the owner that OWNERS shows.
#[test]
fn owners_that_went_or_were_replaced_are_written_before_many_new_ones() {
    let (mut world, pods) = World::cluster().with_backends(2);
    world.state.take_owners(usize::MAX);
    let new =
        [1, 2, 3].map(|last| pod("shop", &format!("new-{last}"), "web", &[Addr::v4([10, 244, 1, last])]));
    for pod in &new {
        world.pod(pod);
    }
    world.pod(&dead(&pods[0]));
    world.pod(&dead(&pods[1]));
    world.pod(&pod("shop", "successor", "web", &pods[1].ips));
    let (_, first) = world.state.take_owners(1);
    assert_eq!(Vec::from_iter(first), [pods[0].ips[0], pods[1].ips[0]]);
    assert!(world.state.has_backlog());
    let (_, rest) = world.state.take_owners(usize::MAX);
    assert_eq!(Vec::from_iter(rest), new.map(|pod| pod.ips[0]));
}
