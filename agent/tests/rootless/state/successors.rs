//! A Service without a selector whose slice names a pod that another pod of the same name replaced. One story each.

use super::*;

/// `shop/web` has no selector, and its slice lists the pod `shop/pg-0` with the UID `first` on X.
fn patroni() -> (World, Pod) {
    let mut world = World::cluster();
    let first = incarnation("first", &[X]);
    world.tell(service(Service { selector: None, ..web() }));
    world.pod(&first);
    world.tell(Fact::Slice(Change::Applied(listing(&first))));
    (world, first)
}

/// A pod `shop/pg-0`.
fn incarnation(of: &str, ips: &[Addr]) -> Pod {
    Pod { uid: uid(of), ..pod("shop", "pg-0", "pg", ips) }
}

fn listing(target: &Pod) -> Slice {
    let mut slice = slice("web", &[(X, Some(target.uid))]);
    slice.endpoints[0].target_name = Some(PodName::of_pod(target));
    slice
}

#[test]
fn a_successor_that_shows_the_ip_is_not_denied() {
    let (mut world, first) = patroni();
    world.pod(&dead(&first)).denies(&[DeadBackend]);
    world.deleted(&dead(&first));
    world.pod(&incarnation("second", &[X])).denies(&[]);
}

#[test]
fn a_name_that_a_slice_of_another_service_gives_to_a_pod_counts_for_all() {
    let (mut world, first) = (World::cluster(), incarnation("first", &[X]));
    world.tell(service(Service { selector: None, ..web() }));
    let other = ("shop".into(), "other".into());
    let named = Slice { name: ("shop".into(), "second".into()), service: Some(other), ..listing(&first) };
    let mut unnamed = listing(&first);
    unnamed.endpoints[0].target_name = None;
    world.pod(&first);
    world.tell(Fact::Slice(Change::Applied(unnamed)));
    world.pod(&dead(&first));
    world.pod(&incarnation("second", &[X])).denies(&[Reused]);
    world.tell(Fact::Slice(Change::Applied(named))).denies(&[]);
}

#[test]
fn a_successor_has_the_name_and_namespace_and_may_hold_the_ip_until_it_is_finished_or_shows_another() {
    let second = || incarnation("second", &[X]);
    let coming = || Pod { uid: uid("second"), ..pending("shop", "pg-0", "pg") };
    let other = |namespace| pod(namespace, if namespace == "shop" { "pg-1" } else { "pg-0" }, "pg", &[X]);
    let unnamed = sliced(&[(X, Some(uid("first")))]);
    let named = Fact::Slice(Change::Applied(listing(&incarnation("first", &[X]))));
    for (sentence, facts, reasons) in [
        ("none came", vec![], &[DeadBackend][..]),
        ("it shows no IP yet", vec![shown(coming())], &[]),
        ("it shows another IP", vec![shown(coming()), shown(incarnation("second", &[Y]))], &[DeadBackend]),
        ("of another name, without an IP", vec![shown(pending("shop", "pg-1", "pg"))], &[DeadBackend]),
        ("of another namespace, without an IP", vec![shown(pending("other", "pg-0", "pg"))], &[DeadBackend]),
        ("of another name", vec![shown(other("shop"))], &[Reused]),
        ("of another namespace", vec![shown(other("other"))], &[Reused]),
        (
            "it may still serve what it began",
            vec![shown(second()), shown(terminal(&second()))],
            &[RetiredBackend],
        ),
        ("it is dead", vec![shown(second()), shown(dead(&second()))], &[DeadBackend]),
        ("a later slice adds the name", vec![unnamed, shown(second()), named], &[]),
    ] {
        let (mut world, first) = patroni();
        world.deleted(&dead(&first));
        world.tell_all(facts);
        assert_eq!(world.reasons(), reasons, "{sentence}");
    }
}

/// A slice by another writer than the controller, which re-uses the targetRef.
#[test]
fn a_pod_of_the_name_that_a_slice_gives_is_the_services_own_though_it_has_a_selector() {
    let (mut world, a) = World::cluster().with_a();
    world.tell(Fact::Slice(Change::Applied(listing(&a))));
    world.deleted(&dead(&a));
    let namesake = Pod { uid: uid("b"), ..pod("shop", "a", "another", &[X]) };
    world.pod(&namesake).denies(&[]);
    world.deleted(&namesake);
    world.pod(&pod("shop", "c", "another", &[X])).denies(&[Reused]);
}
