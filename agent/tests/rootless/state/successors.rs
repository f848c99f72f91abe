//! A Service without a selector whose slice names a pod that another pod of the same name replaced. One story each.

use super::world::{World, X, Y, dead, pending, pod, slice, terminal, uid, web};
use epguard_common::Reason::{DeadBackend, RetiredBackend, Reused};
use epguard_core::facts::{Change, Fact, Pod, PodName, Service, Slice, SliceEndpoint};

/// `shop/web` has no selector, and its slice lists the pod `shop/pg-0` with the UID `first` on X.
fn patroni() -> (World, Pod) {
    let mut world = World::cluster();
    let first = incarnation("first", &[X]);
    world.tell(Fact::Service(Change::Applied(Service { selector: None, ..web() })));
    world.pod(&first);
    world.tell(Fact::Slice(Change::Applied(listing(&first))));
    (world, first)
}

/// A pod `shop/pg-0`.
fn incarnation(of: &str, ips: &[epguard_common::Addr]) -> Pod {
    Pod { uid: uid(of), ..pod("shop", "pg-0", "pg", ips) }
}

fn listing(target: &Pod) -> Slice {
    Slice {
        endpoints: vec![SliceEndpoint {
            ip: X,
            target: Some(target.uid),
            target_name: Some(PodName::of_pod(target)),
            ready: true,
        }],
        ..slice("web", &[])
    }
}

#[test]
fn a_successor_that_shows_the_ip_is_not_denied() {
    let (mut world, first) = patroni();
    world.pod(&dead(&first));
    assert_eq!(world.reasons(), [DeadBackend]);
    world.deleted(&dead(&first));
    world.pod(&incarnation("second", &[X]));
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_name_that_a_slice_of_another_service_gives_to_a_pod_counts_for_all() {
    let (mut world, first) = (World::cluster(), incarnation("first", &[X]));
    let selector = None;
    world.tell(Fact::Service(Change::Applied(Service { selector, ..web() })));
    let other = ("shop".into(), "other".into());
    let named = Slice { name: ("shop".into(), "second".into()), service: Some(other), ..listing(&first) };
    let mut unnamed = listing(&first);
    unnamed.endpoints[0].target_name = None;
    world.pod(&first);
    world.tell(Fact::Slice(Change::Applied(unnamed)));
    world.pod(&dead(&first));
    world.pod(&incarnation("second", &[X]));
    assert_eq!(world.reasons(), [Reused]);
    world.tell(Fact::Slice(Change::Applied(named)));
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_successor_that_shows_no_ip_yet_may_hold_it() {
    let (mut world, first) = patroni();
    world.deleted(&dead(&first));
    assert_eq!(world.reasons(), [DeadBackend]);
    let second = Pod { uid: uid("second"), ..pending("shop", "pg-0", "pg") };
    world.pod(&second);
    assert_eq!(world.reasons(), []);
    world.pod(&incarnation("second", &[Y]));
    assert_eq!(world.reasons(), [DeadBackend], "it shows another IP");
}

#[test]
fn a_pod_of_another_name_or_namespace_is_no_successor() {
    for (namespace, name) in [("shop", "pg-1"), ("other", "pg-0")] {
        let (mut world, first) = patroni();
        world.deleted(&dead(&first));
        world.pod(&pending(namespace, name, "pg"));
        assert_eq!(world.reasons(), [DeadBackend], "{namespace}/{name}");
        world.pod(&pod(namespace, name, "pg", &[X]));
        assert_eq!(world.reasons(), [Reused], "{namespace}/{name}");
    }
}

#[test]
fn a_successor_that_is_finished_too_is_denied() {
    let (mut world, first) = patroni();
    world.deleted(&dead(&first));
    let second = incarnation("second", &[X]);
    world.pod(&second);
    world.pod(&terminal(&second));
    assert_eq!(world.reasons(), [RetiredBackend], "it may still serve what it began");
    world.pod(&dead(&second));
    assert_eq!(world.reasons(), [DeadBackend]);
}

#[test]
fn a_later_slice_adds_the_target_name() {
    let (mut world, first) = patroni();
    world.slice(&[(X, Some(first.uid))]);
    world.deleted(&dead(&first));
    world.pod(&incarnation("second", &[X]));
    world.tell(Fact::Slice(Change::Applied(listing(&first))));
    assert_eq!(world.reasons(), []);
}

/// A slice by another writer than the controller, which re-uses the targetRef.
#[test]
fn a_pod_of_the_name_that_a_slice_gives_is_the_services_own_though_it_has_a_selector() {
    let (mut world, a) = World::cluster().with_a();
    world.tell(Fact::Slice(Change::Applied(listing(&a))));
    world.deleted(&dead(&a));
    let namesake = Pod { uid: uid("b"), ..pod("shop", "a", "another", &[X]) };
    world.pod(&namesake);
    assert_eq!(world.reasons(), []);
    world.deleted(&namesake);
    world.pod(&pod("shop", "c", "another", &[X]));
    assert_eq!(world.reasons(), [Reused]);
}
