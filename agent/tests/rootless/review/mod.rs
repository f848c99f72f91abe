//! Which denials turn out to be wrong, and which don't. One story each.

mod orphan_ip;

use super::state::*;
use Reason::Terminated;

fn denied(world: &mut World, reason: Reason, meant: Uid) {
    world.now += Duration::from_secs(1);
    denied_at(world, world.now, reason, meant);
}

fn denied_at(world: &mut World, at: Duration, reason: Reason, meant: Uid) {
    let number = world.state.tables().services.values().next().copied();
    let event = Event {
        at_ns: u64::try_from(at.as_nanos()).unwrap(),
        dead_uid: meant,
        dst: X,
        dst_port: 8080,
        protocol: 6,
        reason: reason as u32,
        service: if reason == Terminated {
            ServiceNumber::NONE
        } else {
            number.unwrap()
        },
        ..Event::default()
    };
    world.state.add_denied_packet(&event);
}

/// One of many packets to an orphan IP.
fn scanned(world: &mut World, dst: Addr, dst_port: u16) {
    world.now += Duration::from_millis(1);
    let at_ns = u64::try_from(world.now.as_nanos()).unwrap();
    world.state.add_denied_packet(&Event {
        at_ns,
        dst,
        dst_port,
        reason: Terminated as u32,
        ..Event::default()
    });
}

fn findings(world: &mut World) -> Vec<(Reason, Contradiction)> {
    world.now += Duration::from_secs(2);
    world.state.tick(world.now);
    let findings = world.state.take_findings().into_iter();
    findings
        .map(|finding| (finding.case.reason, finding.contradiction))
        .collect()
}

#[test]
fn a_pod_of_the_service_that_held_the_ip_unpublished_was_denied_wrongly() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&on("node-b", pending("shop", "b", "api")));
    world
        .pod(&dead(&a))
        .denies_as("it is labelled later", &[DeadBackend]);
    denied(&mut world, DeadBackend, a.uid);
    let b = on("node-b", pod("shop", "b", "web", &[X]));
    world.pod(&b);
    let wrong = [(DeadBackend, Contradiction::HeldUnpublished(b.uid))];
    assert_eq!(findings(&mut world), wrong);
    assert_eq!(world.state.review().wrong.get(&DeadBackend), Some(&1));
    world.pod(&b);
    assert_eq!(findings(&mut world), [], "once");
}

#[test]
fn a_pod_that_came_later_or_of_no_service_or_with_another_ip_proves_no_denial_wrong() {
    for (before, after) in [
        (None, on("node-b", pod("shop", "b", "web", &[X]))),
        (
            Some(on("node-b", pending("other", "b", "b"))),
            on("node-b", pod("other", "b", "b", &[X])),
        ),
        (
            Some(on("node-b", pending("shop", "b", "api"))),
            on("node-b", pod("shop", "b", "web", &[Y])),
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
fn a_retired_pod_that_is_seen_alive_again_was_denied_wrongly() {
    for (reason, owner) in [
        (RetiredBackend, None),
        (Reused, Some(pod("other", "b", "b", &[X]))),
    ] {
        let (mut world, a) = World::cluster().with_a();
        if let Some(owner) = owner {
            world.pod(&owner);
        }
        world.pod(&terminal(&a)).denies(&[reason]);
        denied(&mut world, reason, a.uid);
        assert_eq!(findings(&mut world), []);
        world.pod(&a);
        assert_eq!(
            findings(&mut world),
            [(reason, Contradiction::MeantIsAlive)]
        );
    }
    // A packet that is reported after the pod was seen alive.
    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a)).pod(&a);
    let (_, service) = world.state.numbers().iter().next().unwrap();
    let reason = RetiredBackend as u32;
    world.state.add_denied_packet(&Event {
        dead_uid: a.uid,
        dst: X,
        reason,
        service,
        ..Event::default()
    });
    assert_eq!(
        findings(&mut world),
        [(RetiredBackend, Contradiction::MeantIsAlive)]
    );
}

#[test]
fn a_denial_that_was_right_when_it_began_or_is_old_is_not_found_wrong() {
    struct Case {
        sentence: &'static str,
        ended: Pod,
        reason: Reason,
        wait: Duration,
        facts: Vec<Fact>,
    }
    let cases = [
        Case {
            sentence: "bound later",
            ended: dead(&a()),
            reason: DeadBackend,
            wait: Duration::ZERO,
            facts: vec![
                shown(pending("shop", "b", "web")),
                shown(pod("shop", "b", "web", &[X])),
            ],
        },
        Case {
            sentence: "dead later",
            ended: terminal(&a()),
            reason: RetiredBackend,
            wait: Duration::ZERO,
            facts: vec![shown(dead(&a())), gone(&dead(&a()))],
        },
        Case {
            sentence: "alive after a long time",
            ended: terminal(&a()),
            reason: RetiredBackend,
            wait: OPEN,
            facts: vec![shown(a())],
        },
    ];
    for case in cases {
        let (mut world, a) = World::cluster().with_a();
        world.pod(&case.ended);
        denied(&mut world, case.reason, a.uid);
        world.now += case.wait;
        assert_eq!(findings(&mut world), [], "{}", case.sentence);
        world.tell_all(case.facts);
        assert_eq!(findings(&mut world), [], "{}", case.sentence);
    }
}

#[test]
fn denials_that_the_breaker_stopped_are_marked_in_the_review() {
    let (mut world, a) = World::cluster().with_a();
    world.list(&[terminal(&a)]);
    assert_eq!(world.stopped(), [X]);
    denied(&mut world, RetiredBackend, a.uid);
    world.list(&[a]);
    let finding = world.state.take_findings().pop().unwrap();
    assert!(finding.packets.stopped);
    assert_eq!((finding.packets.reported, finding.case.ip), (1, X));
    let socket = Endpoint {
        ip: X,
        port: 8080,
        protocol: Protocol::Tcp,
    };
    assert_eq!((finding.case.port, finding.case.protocol), (socket.port, 6));
}

#[test]
fn the_review_keeps_as_many_denials_as_fit_and_drops_the_oldest() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a));
    denied(&mut world, RetiredBackend, a.uid);
    for number in 0..1024u16 {
        let [high, low] = number.to_be_bytes();
        scanned(&mut world, Addr::v4([10, 244, high, low]), 0);
    }
    world.pod(&a);
    assert_eq!(findings(&mut world), [], "pushed out");
}

#[test]
fn a_scan_of_one_ip_evicts_no_denial_of_another() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a));
    denied(&mut world, RetiredBackend, a.uid);
    for port in 0..5000 {
        scanned(&mut world, Y, port);
    }
    world.pod(&a);
    assert_eq!(
        findings(&mut world),
        [(RetiredBackend, Contradiction::MeantIsAlive)]
    );
    assert_eq!(world.state.review().evicted, 5000 - 128);
}

/// A packet to `shop/web` on X would have hit this pod.
fn hit(world: &mut World, meant: Uid, owner: Uid) {
    world.now += Duration::from_secs(1);
    let at_ns = u64::try_from(world.now.as_nanos()).unwrap();
    let reason = Reused as u32;
    let service = world
        .state
        .tables()
        .services
        .values()
        .next()
        .copied()
        .unwrap();
    let dead_uid = meant;
    let owner_uid = owner;
    world.state.add_denied_packet(&Event {
        at_ns,
        dead_uid,
        owner_uid,
        dst: X,
        reason,
        service,
        ..Event::default()
    });
}

#[test]
fn a_pod_that_was_hit_was_meant_if_a_slice_lists_it_there_unless_a_selector_proves_that_it_was_a_stranger()
 {
    struct Case {
        sentence: &'static str,
        selector: Option<Selector>,
        /// The pod that is hit, and how a slice lists it afterwards.
        before: Pod,
        after: Pod,
        is_wrong: bool,
    }
    let cases = [
        Case {
            sentence: "the writer of the slices meant it",
            selector: None,
            before: pod("other", "b", "b", &[X]),
            after: pod("other", "b", "b", &[X]),
            is_wrong: true,
        },
        Case {
            sentence: "it got the label",
            selector: web().selector,
            before: pod("shop", "b", "api", &[X]),
            after: pod("shop", "b", "web", &[X]),
            is_wrong: false,
        },
    ];
    for case in cases {
        let Case {
            sentence,
            selector,
            before,
            after,
            is_wrong,
        } = case;
        let (mut world, a) = World::cluster().with_a();
        world.tell(service(Service { selector, ..web() }));
        world
            .pod(&dead(&a))
            .pod(&before)
            .denies_as(sentence, &[Reused]);
        hit(&mut world, a.uid, before.uid);
        assert_eq!(findings(&mut world), [], "{sentence}");
        let namespaces = [after.name.namespace.clone()].into();
        world.pod(&after).tell(shown_slice(Slice {
            namespaces,
            ..slice("web", &[(X, Some(after.uid))])
        }));
        let wrong = is_wrong.then_some((Reused, Contradiction::Listed(after.uid)));
        assert_eq!(findings(&mut world), Vec::from_iter(wrong), "{sentence}");
    }
}

#[test]
fn a_pod_of_the_service_that_shows_the_ip_after_a_stranger_proves_no_denial_of_the_stranger_wrong()
{
    let (mut world, a) = World::where_a_died();
    world
        .pod(&pending("shop", "next", "web"))
        .pod(&b())
        .denies(&[Reused]);
    hit(&mut world, a.uid, b().uid);
    world
        .deleted(&dead(&b()))
        .pod(&pod("shop", "next", "web", &[X]))
        .denies(&[]);
    assert_eq!(findings(&mut world), []);
}

#[test]
fn a_wrong_denial_costs_its_service_and_without_one_its_reason_and_nothing_if_no_packet_was_stopped()
 {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a));
    denied(&mut world, RetiredBackend, a.uid);
    world.pod(&a);
    let mut finding = world.state.take_findings().pop().unwrap();
    assert_eq!(finding.cost(), Some(Cost::Service(&web().name)));
    finding.packets.stopped = true;
    assert_eq!(finding.cost(), None);
    finding.packets.stopped = false;
    (finding.case.service, finding.case.reason) = (None, Terminated);
    assert_eq!(finding.cost(), Some(Cost::Reason(Terminated)));
}

#[test]
fn a_service_that_pays_for_a_wrong_denial_is_only_observed_and_no_other_is() {
    let (mut world, a) = World::where_a_died();
    world.state.demote(world.now, &web().name);
    world.later(Duration::ZERO);
    let modes = |world: &World| -> Vec<Mode> {
        let denials = world.state.denials();
        denials.map(|(_, _, denial)| denial.mode).collect()
    };
    assert_eq!(modes(&world), [Mode::Observe]);
    let port = ServicePort {
        node_port: 0,
        ..web().ports[0]
    };
    let name = ObjectName::new("shop", "api");
    let vips = vec![Addr::v4([10, 96, 0, 2])];
    let api = Service {
        uid: uid("api"),
        name,
        vips,
        ports: vec![port],
        ..web()
    };
    world.tell(service(api.clone()));
    world.tell(shown_slice(Slice {
        service: Some(api.name),
        ..slice("api", &[(X, Some(a.uid))])
    }));
    assert_eq!(modes(&world), [Mode::Enforce, Mode::Observe]);
    world.state.release_breaker(world.now, Some(&web().name));
    world.later(Duration::ZERO);
    assert_eq!(modes(&world), [Mode::Enforce; 2]);
}
