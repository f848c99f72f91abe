//! Packets that were denied because no pod had the IP.

use super::*;

fn with_vacant_a() -> (World, Pod) {
    let (mut world, a) = World::where_a_died();
    looked(&mut world);
    denied(&mut world, Terminated, a.uid);
    (world, a)
}

#[test]
fn a_packet_from_an_orphan_ip_without_a_new_holder_proves_the_denial_wrong() {
    use Presence::{Announced, Held, Sighted};
    let holder = Held(vec![X]);
    let sighted = |ip| Sighted(ip, with_vacant_a().0.now);
    for (sentence, told, is_wrong) in [
        ("no new holder", vec![sighted(X)], true),
        ("a new holder before", vec![holder.clone(), sighted(X)], false),
        ("a new holder after", vec![sighted(X), holder], false),
        ("one between two reads", vec![sighted(X), Announced(vec![X]), Held(vec![])], false),
        ("another IP", vec![sighted(Y)], false),
    ] {
        let (mut world, _) = with_vacant_a();
        world.tell_all(told.into_iter().map(Fact::Presence).collect());
        let wrong = is_wrong.then_some((Terminated, Evidence::Sighted));
        assert_eq!(findings(&mut world), Vec::from_iter(wrong), "{sentence}");
    }
}

#[test]
fn a_forgeable_packet_from_the_ip_proves_no_denial_wrong() {
    let (mut world, _) = with_vacant_a();
    for _ in 0..3 {
        world.now += Duration::from_secs(1);
        world.tell(Fact::Presence(Presence::Spoke(X, world.now)));
    }
    assert_eq!(findings(&mut world), []);
}

#[test]
fn the_review_of_a_late_packet_waits_until_the_node_has_shown_its_holders() {
    let (mut world, _) = with_vacant_a();
    let at = world.now;
    world.now += Duration::from_secs(5);
    looked(&mut world);
    world.tell(Fact::Presence(Presence::Sighted(X, at)));
    world.later(Duration::from_secs(5));
    world.tell(Fact::Presence(Presence::Held(vec![X])));
    assert_eq!(findings(&mut world), []);
}

#[test]
fn a_packet_while_the_nodes_holders_were_unknown_proves_no_denial_wrong() {
    let (mut world, a) = with_vacant_a();
    let heard = Presence::Sighted(X, world.now);
    world.tell(Fact::Presence(Presence::Unknown));
    world.now += Duration::from_secs(1);
    looked(&mut world);
    world.tell(Fact::Presence(heard));
    assert_eq!(findings(&mut world), []);
    denied(&mut world, Terminated, a.uid);
    world.tell(Fact::Presence(Presence::Sighted(X, world.now)));
    assert_eq!(findings(&mut world), [(Terminated, Evidence::Sighted)]);
}

#[test]
fn a_denial_reported_after_a_later_holder_is_not_proven_wrong() {
    for late in [true, false] {
        let (mut world, a) = World::where_a_died();
        looked(&mut world);
        let before = world.now;
        world.tell(Fact::Presence(Presence::Held(vec![X])));
        let at = if late { before } else { world.now };
        denied_at(&mut world, at, Terminated, a.uid);
        world.tell(Fact::Presence(Presence::Sighted(X, world.now)));
        assert_eq!(findings(&mut world).is_empty(), late);
    }
}

#[test]
fn every_pod_of_this_node_that_held_the_orphan_ip_was_denied_wrongly() {
    let (mut world, a) = World::where_a_died();
    world.pod(&pending("other", "b", "b"));
    denied(&mut world, Terminated, a.uid);
    let b = pod("other", "b", "b", &[X]);
    world.pod(&b);
    assert_eq!(findings(&mut world), [(Terminated, Evidence::HeldUnpublished(b.uid))]);
}
