//! Which facts prove a denial, and which don't: tables of what is told after A ran on X behind the
//! Service.

use super::*;
use Reason::Terminated;
use UidState::{Dead, Retired};

/// A pod of the Service.
fn own(ips: &[Addr]) -> Pod {
    pod("shop", "c", "web", ips)
}

fn is_dead() -> Fact {
    shown(dead(&a()))
}

fn is_terminal() -> Fact {
    shown(terminal(&a()))
}

fn opted_out(pod: Pod) -> Pod {
    Pod {
        bound: Mode::Off,
        ..pod
    }
}

#[test]
fn every_reason_can_be_proven_and_a_denial_names_the_state_of_the_meant_pod_and_the_owner() {
    let a = a();
    let b = b();
    let owner = Some(b.uid);
    let rows = [
        ("a dead pod", vec![is_dead()], (DeadBackend, Dead, None)),
        (
            "its conditions changed",
            vec![is_dead(), is_terminal()],
            (DeadBackend, Dead, None),
        ),
        (
            "its IP was reused",
            vec![is_dead(), shown(b.clone())],
            (Reused, Dead, owner),
        ),
        (
            "a retired pod",
            vec![is_terminal()],
            (RetiredBackend, Retired, None),
        ),
        (
            "a force-deleted pod",
            vec![gone(&a)],
            (RetiredBackend, Retired, None),
        ),
        (
            "a later pod retired",
            vec![is_dead(), shown(terminal(&own(&[X])))],
            (RetiredBackend, Retired, None),
        ),
        (
            "the claim came later",
            vec![is_terminal(), shown(b.clone())],
            (Reused, Retired, owner),
        ),
        (
            "deleted before a gap",
            vec![gone(&a), list_of(&[]), shown(b)],
            (Reused, Retired, owner),
        ),
    ];
    let proven = rows.each_ref().map(|(_, _, (reason, ..))| *reason);
    assert!(
        Reason::TO_DENY
            .iter()
            .all(|reason| proven.contains(reason) || *reason == Terminated)
    );
    for (sentence, facts, (reason, state, owner)) in rows {
        let (mut world, a) = World::cluster().with_a();
        assert_eq!(world.reasons(), [], "{sentence}");
        world.tell_all(facts);
        assert_eq!(
            world.denials(),
            [FoundDenial {
                ip: X,
                reason,
                state,
                meant: a.uid,
                owner,
            }],
            "{sentence}"
        );
        assert_eq!(world.state.take_revived(), None, "{sentence}");
    }
}

#[test]
fn nothing_is_denied_at_the_ip_of_a_dead_pod_that_somebody_may_hold_or_that_is_to_be_left_alone() {
    let meant = Some(a().uid);
    let mut elsewhere = slice("web-metrics", &[(X, Some(uid("stranger")))]);
    elsewhere.ports[0].port = 9090;
    let rows = [
        ("a pod of the Service claims it", vec![shown(own(&[X]))]),
        (
            "one that came in a gap does",
            vec![list_of(&[dead(&a()), own(&[X])])],
        ),
        (
            "one shows it on another network",
            vec![shown(Pod {
                network_ips: [Y, X].into(),
                ..own(&[Y])
            })],
        ),
        (
            "one shows no IP yet",
            vec![shown(pending("shop", "c", "web"))],
        ),
        (
            "one may have a new sandbox",
            vec![shown(Pod {
                sandbox: Sandbox::Unsettled,
                ..own(&[Y])
            })],
        ),
        (
            "one shows more addresses than are read",
            vec![shown(Pod {
                partial: true,
                ..own(&[Y])
            })],
        ),
        (
            "a slice lists it without a UID",
            vec![sliced(&[(X, meant), (X, None)])],
        ),
        (
            "a slice lists it with an unknown one",
            vec![sliced(&[(X, meant), (X, Some(uid("stranger")))])],
        ),
        (
            "the Service lists it on another port",
            vec![Fact::Slice(Change::Applied(elsewhere))],
        ),
        (
            "the node has it, a gateway for one",
            vec![Fact::LocalAddresses(vec![X])],
        ),
        (
            "the Service opted out",
            vec![service(Service {
                bound: Mode::Off,
                ..web()
            })],
        ),
        ("the pod opted out", vec![shown(opted_out(dead(&a())))]),
        ("the new owner opted out", vec![shown(opted_out(b()))]),
        (
            "the Service vanished in a gap",
            vec![Fact::Service(Change::Reset(vec![]))],
        ),
        (
            "a Service without a selector does not list it",
            vec![
                service(Service {
                    selector: None,
                    ..web()
                }),
                sliced(&[]),
            ],
        ),
    ];
    judge(&[is_dead()], rows, &[]);
    let before = vec![shown(pending("shop", "c", "web")), is_dead()];
    judge(&[], [("the possible holder came first", before)], &[]);
}

#[test]
fn the_denial_of_a_dead_pod_outlives_its_objects_because_proxies_and_conntrack_do() {
    let opted_out = service(Service {
        bound: Mode::Off,
        ..web()
    });
    let rows = [
        ("no slice lists it", vec![sliced(&[])]),
        ("nor is it in the API", vec![sliced(&[]), gone(&dead(&a()))]),
        ("a list lacks it", vec![list_of(&[])]),
        (
            "a pod of another Service shows no IP",
            vec![shown(pending("other", "c", "c"))],
        ),
        (
            "the next pod shows another IP",
            vec![shown(pending("shop", "c", "web")), shown(own(&[Y]))],
        ),
        (
            "the Service opted in again",
            vec![opted_out, service(web())],
        ),
        (
            "a Service without a selector lists it",
            vec![service(Service {
                selector: None,
                ..web()
            })],
        ),
    ];
    judge(&[is_dead()], rows, &[DeadBackend]);
    for (listed, reasons) in [(true, &[DeadBackend][..]), (false, &[])] {
        let (mut world, _) = World::where_a_died();
        if !listed {
            world.slice(&[]);
        }
        world.later(MEMORY * 2);
        assert_eq!(world.reasons(), reasons, "listed: {listed}");
    }
}

#[test]
fn what_may_be_the_end_of_a_pod_proves_none() {
    let a = a();
    let deleting = Pod {
        deleting: true,
        ..a.clone()
    };
    let moved = Pod {
        ips: [Y].into(),
        ..a.clone()
    };
    let listed = list_of(&[terminal(&a), b()]);
    let rows = [
        (
            "no deletion timestamp",
            vec![Fact::Pod(Change::Deleted(a.clone()))],
        ),
        (
            "retired, and alive again",
            vec![is_terminal(), shown(a.clone())],
        ),
        (
            "retired, and vanished in a gap",
            vec![is_terminal(), list_of(&[])],
        ),
        (
            "retired, and alive after a gap",
            vec![is_terminal(), list_of(std::slice::from_ref(&a))],
        ),
        (
            "terminating, and vanished in a gap",
            vec![shown(deleting.clone()), list_of(&[])],
        ),
        (
            "its IP has a new owner, too",
            vec![shown(deleting), list_of(&[]), shown(b())],
        ),
        (
            "dead in one list, and alive again",
            vec![list_of(&[dead(&a)]), shown(a.clone())],
        ),
        (
            "alive on another IP",
            vec![shown(moved), sliced(&[(Y, Some(a.uid))])],
        ),
        (
            "no order of claims in a list",
            vec![is_terminal(), shown(b()), listed],
        ),
    ];
    judge(&[], rows, &[]);
    let mut world = World::cluster();
    for fact in [
        shown(b()),
        shown(a.clone()),
        sliced(&[(X, Some(a.uid))]),
        is_terminal(),
    ] {
        world.tell(fact).denies_as("B was there first", &[]);
    }
}

#[test]
fn the_end_of_a_mirror_or_host_network_pod_is_never_judged() {
    for (sentence, pod) in [
        (
            "a mirror pod",
            Pod {
                mirror: true,
                ..a()
            },
        ),
        (
            "on a node's network, at an address that no node shows",
            Pod {
                host_network: true,
                ..a()
            },
        ),
        (
            "at a node's address",
            Pod {
                host_network: true,
                ..pod("shop", "a", "web", &[NODE])
            },
        ),
    ] {
        let mut world = World::cluster();
        world.pod(&pod);
        world.slice(&[(pod.ips[0], Some(pod.uid))]);
        for fact in [shown(terminal(&pod)), gone(&pod), shown(dead(&pod))] {
            let told = format!("{sentence}: {fact:?}");
            world.tell(fact);
            assert_eq!(world.reasons(), [], "{told}");
        }
    }
}

#[test]
fn a_late_delete_of_the_old_pod_leaves_the_new_owner_untouched() {
    let (mut world, a) = World::cluster().with_a();
    let b = pod("shop", "b", "web", &[X]);
    world
        .pod(&dead(&a))
        .slice(&[(X, Some(b.uid))])
        .pod(&b)
        .deleted(&dead(&a))
        .denies(&[]);
    let (owners, _) = world.state.take_owners(usize::MAX);
    assert_eq!(owners.get(&X).map(|owner| owner.uid), Some(b.uid));
}

#[test]
fn nothing_is_denied_before_every_kind_was_listed() {
    let mut world = World {
        state: State::new(settings()),
        now: Duration::ZERO,
    };
    world
        .tell(Fact::Service(Change::Reset(vec![web()])))
        .list_slices(&[(X, Some(a().uid))]);
    world.list(&[dead(&a())]).denies(&[]);
    world
        .tell(Fact::Node(Change::Reset(vec![node("node-a", 1)])))
        .denies(&[]);
    world
        .tell(Fact::Namespace(Change::Reset(vec![])))
        .denies(&[DeadBackend]);
}

#[test]
fn two_live_claimants_are_a_conflict_and_pass() {
    let (mut world, _) = World::where_a_died();
    world.pod(&b());
    world.pod(&pod("other", "c", "c", &[X])).denies(&[]);
    assert_eq!(world.state.live_claimants(X).count(), 2);
    let (owners, _) = world.state.take_owners(usize::MAX);
    assert_eq!(
        owners.get(&X).map(|owner| owner.flags),
        Some(Owner::CONFLICT)
    );
}

#[test]
fn the_owners_of_an_ip_are_counted_across_its_idle_time() {
    let (mut world, a) = World::cluster().with_a();
    let generation = |world: &mut World| {
        world
            .state
            .take_owners(usize::MAX)
            .0
            .get(&X)
            .map(|owner| owner.generation)
    };
    assert_eq!(generation(&mut world), Some(1));
    world.pod(&dead(&a));
    assert_eq!(generation(&mut world), None);
    world.pod(&b());
    assert_eq!(generation(&mut world), Some(2));
}

/// A redirected flow may lead to the owner that OWNERS shows.
#[test]
fn owners_that_went_or_were_replaced_are_written_before_many_new_ones() {
    let (mut world, pods) = World::cluster().with_backends(2);
    world.state.take_owners(usize::MAX);
    let new = [1, 2, 3].map(|last| {
        pod(
            "shop",
            &format!("new-{last}"),
            "web",
            &[Addr::v4([10, 244, 1, last])],
        )
    });
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
