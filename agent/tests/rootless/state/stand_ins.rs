//! Pods that stand in for the pod that was meant, where the Service's selector proves nothing. One story each.

use super::*;

/// `shop/web` has this selector, and its slice lists a dead pod of a Deployment.
fn listing_a(selector: Option<Selector>) -> (World, Pod) {
    let mut world = World::cluster();
    world.tell(Fact::Service(Change::Applied(Service { selector, ..web() })));
    let a = replica("a", "pg", &[X]);
    world.pod(&a);
    world.slice(&[(X, Some(a.uid))]);
    world.pod(&dead(&a)).denies(&[DeadBackend]);
    (world, a)
}

#[test]
fn the_next_replica_is_reached_where_the_services_slices_have_another_writer() {
    let (mut world, _) = listing_a(None);
    let b = replica("b", "pg", &[X]);
    world.pod(&pending("shop", "b", "pg")).denies_as("its owner is not known yet", &[DeadBackend]);
    world.pod(&replica("b", "pg", &[])).denies_as("it may hold the IP", &[]);
    world.pod(&b).denies(&[]);
    world.deleted(&b).denies(&[DeadBackend]);
}

#[test]
fn a_selector_that_picks_a_pod_by_chance_proves_nothing_where_its_slices_have_another_writer() {
    for (foreign, reasons) in [(false, &[Reused][..]), (true, &[])] {
        let mut world = World::cluster();
        let selector = Some([("app", "leader")].into_iter().collect());
        world.tell(Fact::Service(Change::Applied(Service { selector, ..web() })));
        let a = Pod { labels: [("app", "leader")].into_iter().collect(), ..replica("a", "pg", &[X]) };
        world.pod(&a);
        let listed = Slice { foreign, ..slice("web", &[(X, Some(a.uid))]) };
        world.tell(Fact::Slice(Change::Applied(listed)));
        world.pod(&dead(&a)).denies(&[DeadBackend]);
        world.pod(&replica("b", "pg", &[X])).denies(reasons);
    }
}

#[test]
fn a_pod_of_another_workload_or_of_none_is_a_stranger() {
    let name = ("bank".into(), "b".into());
    let workload = Some(Workload::new("bank", ("Deployment", "pg")));
    for stranger in [
        replica("b", "other", &[X]),
        pod("shop", "member-1", "pg", &[X]),
        Pod { name, workload, ..replica("b", "pg", &[X]) },
    ] {
        let (mut world, _) = listing_a(None);
        world.pod(&stranger).denies_as(&format!("{stranger:?}"), &[Reused]);
    }
}

#[test]
fn a_selector_proves_nothing_while_slices_list_pods_that_it_does_not_select_dead_or_alive() {
    let (mut world, _) = listing_a(Some([("app", "only-its-controller-knows")].into_iter().collect()));
    let b = replica("b", "pg", &[X]);
    world.pod(&pending("shop", "c", "pg"));
    world.pod(&b).denies_as("the dead pod shows it", &[]);

    let (mut world, _) = listing_a(Some([("app", "pg")].into_iter().collect()));
    let unselected =
        |name, ip| Pod { labels: [("app", "api")].into_iter().collect(), ..replica(name, "pg", &[ip]) };
    world.pod(&unselected("b", X)).denies(&[Reused]);
    let c = unselected("c", Y);
    world.pod(&c);
    for c in [c.clone(), dead(&c)] {
        world.pod(&c);
        let second = slice("second", &[(Y, Some(c.uid))]);
        world.tell(Fact::Slice(Change::Applied(second.clone())));
        assert!(!world.reasons().contains(&Reused));
        world.tell(Fact::Slice(Change::Deleted(second)));
        assert!(!world.reasons().contains(&Reused), "they did recently");
    }
}

#[test]
fn a_death_that_outlives_a_start_over_shows_that_the_selector_proves_nothing() {
    let selector: Option<Selector> = Some([("app", "only-its-controller-knows")].into_iter().collect());
    let (mut world, a) = listing_a(selector.clone());
    let c = pod("other", "c", "c", &[Y]);
    world.pod(&dead(&c));
    world.deleted(&dead(&a));
    world.pod(&c);
    assert_eq!(world.state.take_revived(), Some(c.name.clone()));
    world.list_all_but_pods();
    world.tell(Fact::Service(Change::Applied(Service { selector, ..web() })));
    world.slice(&[(X, Some(a.uid))]);
    world.list(&[c]).denies(&[DeadBackend]);
    world.pod(&replica("b", "pg", &[X])).denies(&[]);
}

/// No slice of an honest writer gives a pod so many names; an attacker's makes only passes.
#[test]
fn nothing_is_denied_where_slices_give_a_pod_more_names_than_are_kept() {
    let (mut world, a) = listing_a(None);
    for number in 0..20 {
        let mut foreign = slice("foreign", &[(Y, Some(a.uid))]);
        foreign.endpoints[0].target_name = Some(PodName::new("shop", &number.to_string()));
        world.tell(Fact::Slice(Change::Applied(foreign)));
        assert_eq!(world.reasons().is_empty(), number >= 8, "{number}");
    }
}

#[test]
fn a_live_pod_that_any_slice_of_the_service_lists_is_its_own() {
    let (mut world, _) = listing_a(Some([("app", "web")].into_iter().collect()));
    let b = pod("shop", "b", "api", &[X, Y]);
    world.pod(&b).denies(&[Reused]);
    world.tell(Fact::Slice(Change::Applied(slice("second", &[(Y, Some(b.uid))])))).denies(&[]);
}
