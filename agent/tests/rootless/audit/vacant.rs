//! Packets that were denied because nobody had the IP.

use super::*;

fn with_vacant_a() -> (World, Pod) {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    looked(&mut world);
    denied(&mut world, Terminated, a.uid);
    (world, a)
}

#[test]
fn an_ip_whose_holder_is_sighted_without_a_new_one_was_denied_wrongly() {
    let (mut world, _) = with_vacant_a();
    world.tell(Fact::Presence(Presence::Sighted(X, world.now)));
    assert_eq!(findings(&mut world), [(Terminated, Evidence::Sighted)]);
}

#[test]
fn a_packet_from_the_ip_that_anybody_may_have_forged_proves_no_denial_wrong() {
    let (mut world, _) = with_vacant_a();
    for _ in 0..3 {
        world.now += Duration::from_secs(1);
        world.tell(Fact::Presence(Presence::Spoke(X, world.now)));
    }
    assert_eq!(findings(&mut world), []);
}

#[test]
fn an_ip_that_speaks_after_the_node_showed_a_new_holder_was_denied_rightly() {
    let held = Presence::Held(vec![X]);
    for speaks_first in [false, true] {
        let (mut world, _) = with_vacant_a();
        let spoke = Presence::Sighted(X, world.now);
        let order = if speaks_first {
            [spoke, held.clone()]
        } else {
            [held.clone(), spoke]
        };
        for presence in order {
            world.tell(Fact::Presence(presence));
        }
        assert_eq!(findings(&mut world), []);
    }
}

#[test]
fn an_ip_whose_new_holder_came_and_went_between_two_looks_was_denied_rightly() {
    let (mut world, _) = with_vacant_a();
    world.tell(Fact::Presence(Presence::Sighted(X, world.now)));
    world.tell(Fact::Presence(Presence::Came(vec![X])));
    world.tell(Fact::Presence(Presence::Held(vec![])));
    assert_eq!(findings(&mut world), []);
}

#[test]
fn an_agent_that_hears_of_a_packet_late_waits_for_the_node_to_show_the_holder() {
    let (mut world, _) = with_vacant_a();
    let at = world.now;
    world.now += Duration::from_secs(5);
    looked(&mut world);
    world.tell(Fact::Presence(Presence::Sighted(X, at)));
    world.now += Duration::from_secs(5);
    world.state.tick(world.now);
    world.tell(Fact::Presence(Presence::Held(vec![X])));
    assert_eq!(findings(&mut world), []);
}

#[test]
fn nobody_is_accused_of_what_happened_while_the_node_was_not_looked_at() {
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
fn a_denial_that_is_heard_of_after_the_holder_that_came_after_it_was_right() {
    for late in [true, false] {
        let (mut world, a) = World::cluster().with_a();
        world.pod(&dead(&a));
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
fn another_ip_that_speaks_accuses_no_one() {
    let (mut world, _) = with_vacant_a();
    world.tell(Fact::Presence(Presence::Sighted(Y, world.now)));
    assert_eq!(findings(&mut world), []);
}

#[test]
fn a_pod_of_this_node_that_held_the_vacant_ip_was_denied_wrongly_whosoever_it_is() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.pod(&pending("other", "b", "b"));
    denied(&mut world, Terminated, a.uid);
    let b = pod("other", "b", "b", &[X]);
    world.pod(&b);
    assert_eq!(
        findings(&mut world),
        [(Terminated, Evidence::HeldUnpublished(b.uid))]
    );
}
