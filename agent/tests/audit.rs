//! Which denials turn out to be wrong, and which don't. One story each.
#![expect(
    clippy::unwrap_used,
    reason = "all of this file is tests; clippy only knows the marked functions"
)]

mod world;

use epguard::facts::{Fact, Pod, Presence, Protocol};
use epguard::state::{Evidence, OPEN, Socket};
use epguard_common::Reason::{self, DeadBackend, RetiredBackend, Reused, Terminated};
use epguard_common::{Addr, Event, Slot, Uid};
use std::time::Duration;
use world::{World, X, Y, dead, pending, pod, terminal};

/// A packet that is denied now; the slot says for which Service.
fn denied(world: &mut World, reason: Reason, meant: Uid) {
    world.now += Duration::from_secs(1);
    denied_at(world, world.now, reason, meant);
}

fn denied_at(world: &mut World, at: Duration, reason: Reason, meant: Uid) {
    let slot = world.state.tables().services.values().next().copied();
    let event = Event {
        at_ns: u64::try_from(at.as_nanos()).unwrap(),
        dead_uid: meant,
        dst: X,
        dst_port: 8080,
        protocol: 6,
        reason: reason as u32,
        slot: if reason == Terminated {
            Slot::NONE
        } else {
            slot.unwrap()
        },
        ..Event::default()
    };
    world.state.denied(&event);
}

fn findings(world: &mut World) -> Vec<(Reason, Evidence)> {
    world.now += Duration::from_secs(2);
    looked(world);
    let findings = world.state.take_findings().into_iter();
    findings
        .map(|finding| (finding.case.reason, finding.evidence))
        .collect()
}

/// The node has told whom it leads to by now.
fn looked(world: &mut World) {
    world.tell(Fact::Presence(Presence::Looked(world.now)));
    world.state.tick(world.now);
}

fn on_node_b(pod: Pod) -> Pod {
    Pod {
        node: Some("node-b".into()),
        ..pod
    }
}

#[test]
fn a_pod_of_the_service_that_held_the_ip_unpublished_was_denied_wrongly() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&on_node_b(pending("shop", "b", "web")));
    world.pod(&dead(&a));
    assert_eq!(world.reasons(), [DeadBackend], "ranges are believed");
    denied(&mut world, DeadBackend, a.uid);
    let b = on_node_b(pod("shop", "b", "web", &[X]));
    world.pod(&b);
    let wrong = [(DeadBackend, Evidence::HeldUnpublished(b.uid))];
    assert_eq!(findings(&mut world), wrong);
    assert_eq!(world.state.wrong_denies().get(&DeadBackend), Some(&1));
    world.pod(&b);
    assert_eq!(findings(&mut world), [], "once");
}

#[test]
fn a_pod_that_came_after_the_packet_or_belongs_to_nobody_or_elsewhere_accuses_no_one() {
    for (before, after) in [
        (None, on_node_b(pod("shop", "b", "web", &[X]))),
        (
            Some(on_node_b(pending("other", "b", "b"))),
            on_node_b(pod("other", "b", "b", &[X])),
        ),
        (
            Some(on_node_b(pending("shop", "b", "web"))),
            on_node_b(pod("shop", "b", "web", &[Y])),
        ),
    ] {
        let (mut world, a) = World::cluster().with_a();
        if let Some(before) = before {
            world.pod(&before);
        }
        world.pod(&dead(&a));
        denied(&mut world, DeadBackend, a.uid);
        world.pod(&after);
        assert_eq!(findings(&mut world), [], "{after:?}");
    }
}

#[test]
fn a_packet_denied_before_the_pod_was_bound_was_denied_rightly() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    denied(&mut world, DeadBackend, a.uid);
    world.pod(&pending("shop", "b", "web"));
    world.pod(&pod("shop", "b", "web", &[X]));
    assert_eq!(findings(&mut world), []);
}

fn with_vacant_a() -> (World, Pod) {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    looked(&mut world);
    denied(&mut world, Terminated, a.uid);
    (world, a)
}

#[test]
fn an_ip_that_speaks_without_a_new_holder_was_denied_wrongly() {
    let (mut world, _) = with_vacant_a();
    world.tell(Fact::Presence(Presence::Spoke(X, world.now)));
    assert_eq!(findings(&mut world), [(Terminated, Evidence::Spoke)]);
}

#[test]
fn an_ip_that_speaks_after_the_node_showed_a_new_holder_was_denied_rightly() {
    let held = Presence::Held(vec![X]);
    for speaks_first in [false, true] {
        let (mut world, _) = with_vacant_a();
        let spoke = Presence::Spoke(X, world.now);
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
    world.tell(Fact::Presence(Presence::Spoke(X, world.now)));
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
    world.tell(Fact::Presence(Presence::Spoke(X, at)));
    world.now += Duration::from_secs(5);
    world.state.tick(world.now);
    world.tell(Fact::Presence(Presence::Held(vec![X])));
    assert_eq!(findings(&mut world), []);
}

#[test]
fn nobody_is_accused_of_what_happened_while_the_node_was_not_looked_at() {
    let (mut world, a) = with_vacant_a();
    let heard = Presence::Spoke(X, world.now);
    world.tell(Fact::Presence(Presence::Unknown));
    world.now += Duration::from_secs(1);
    looked(&mut world);
    world.tell(Fact::Presence(heard));
    assert_eq!(findings(&mut world), []);
    denied(&mut world, Terminated, a.uid);
    world.tell(Fact::Presence(Presence::Spoke(X, world.now)));
    assert_eq!(findings(&mut world), [(Terminated, Evidence::Spoke)]);
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
        world.tell(Fact::Presence(Presence::Spoke(X, world.now)));
        assert_eq!(findings(&mut world).is_empty(), late);
    }
}

#[test]
fn another_ip_that_speaks_accuses_no_one() {
    let (mut world, _) = with_vacant_a();
    world.tell(Fact::Presence(Presence::Spoke(Y, world.now)));
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

#[test]
fn a_retired_pod_that_is_seen_alive_again_was_denied_wrongly() {
    for (reason, owner) in [
        (RetiredBackend, None),
        (Reused, Some(pod("other", "b", "b", &[X]))),
    ] {
        let (mut world, a) = World::cluster().with_a();
        if let Some(owner) = owner {
            world.pod(&owner);
        }
        world.pod(&terminal(&a));
        assert_eq!(world.reasons(), [reason]);
        denied(&mut world, reason, a.uid);
        assert_eq!(findings(&mut world), []);
        world.pod(&a);
        assert_eq!(findings(&mut world), [(reason, Evidence::MeantIsAlive)]);
    }
}

#[test]
fn a_packet_that_is_reported_after_the_pod_was_seen_alive_is_found_too() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a));
    world.pod(&a);
    let slot = Slot { number: 0x8001 };
    assert!(world.state.service_name(slot).is_some(), "it rests");
    world.state.denied(&Event {
        dead_uid: a.uid,
        dst: X,
        reason: RetiredBackend as u32,
        slot,
        ..Event::default()
    });
    assert_eq!(findings(&mut world), [(RetiredBackend, Evidence::MeantIsAlive)]);
}

#[test]
fn a_retired_pod_that_dies_was_denied_rightly() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a));
    denied(&mut world, RetiredBackend, a.uid);
    world.pod(&dead(&a));
    world.deleted(&dead(&a));
    assert_eq!(findings(&mut world), []);
}

#[test]
fn what_was_denied_long_ago_is_closed() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a));
    denied(&mut world, RetiredBackend, a.uid);
    world.now += OPEN;
    assert_eq!(findings(&mut world), []);
    world.pod(&a);
    assert_eq!(findings(&mut world), []);
}

#[test]
fn what_the_breaker_held_is_told_apart() {
    let (mut world, a) = World::cluster().with_a();
    world.list(&[terminal(&a)]);
    assert_eq!(world.held(), [X]);
    denied(&mut world, RetiredBackend, a.uid);
    world.list(&[a]);
    let finding = world.state.take_findings().pop().unwrap();
    assert!(finding.packets.held);
    assert_eq!((finding.packets.reported, finding.case.ip), (1, X));
    let socket = Socket {
        ip: X,
        port: 8080,
        protocol: Protocol::Tcp,
    };
    assert_eq!((finding.case.port, finding.case.protocol), (socket.port, 6));
}

#[test]
fn as_many_denials_are_remembered_as_fit_and_the_oldest_go_first() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a));
    denied(&mut world, RetiredBackend, a.uid);
    for number in 0..1024u16 {
        let [high, low] = number.to_be_bytes();
        world.now += Duration::from_millis(1);
        world.state.denied(&Event {
            at_ns: u64::try_from(world.now.as_nanos()).unwrap(),
            dst: Addr::v4([10, 244, high, low]),
            reason: Terminated as u32,
            ..Event::default()
        });
    }
    world.pod(&a);
    assert_eq!(findings(&mut world), [], "pushed out");
}
