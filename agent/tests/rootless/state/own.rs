//! The Service's own pods, where its selector proves nothing: all of the namespaces of the pods
//! that its slices name. One story each.

use super::*;

/// `shop/web` has this selector, and its slice lists a pod, which is dead.
fn listing_a(selector: Option<Selector>) -> (World, Pod) {
    let mut world = World::cluster();
    world.tell(service(Service { selector, ..web() }));
    let a = pod("shop", "a", "pg", &[X]);
    world.pod(&a);
    world.slice(&[(X, Some(a.uid))]);
    world.pod(&dead(&a)).denies(&[DeadBackend]);
    (world, a)
}

fn selecting(app: &str) -> Selector {
    [("app", app)].into_iter().collect()
}

/// A slice of `shop/web` that lists a pod on X, and is not the controller's.
fn foreign(name: &str, listed: &Pod) -> Slice {
    let namespaces = [listed.name.namespace.clone()].into();
    Slice {
        foreign: true,
        namespaces,
        ..slice(name, &[(X, Some(listed.uid))])
    }
}

#[test]
fn any_pod_of_the_namespace_may_be_meant_next_and_is_reached_from_the_moment_at_which_it_may_hold_the_ip()
 {
    for next in ["pg", "another"] {
        let (mut world, _) = listing_a(None);
        let b = pod("shop", "b", next, &[X]);
        let unbound = Pod {
            node: None,
            ..pending("shop", "b", next)
        };
        world
            .pod(&unbound)
            .denies_as("no node has taken it", &[DeadBackend]);
        world
            .pod(&pending("shop", "b", next))
            .denies_as("it may hold the IP", &[]);
        world.pod(&b).denies(&[]);
        world
            .pod(&terminal(&b))
            .denies_as("it may still serve what it began", &[RetiredBackend]);
        world.pod(&dead(&b)).denies(&[DeadBackend]);
    }
}

#[test]
fn a_pod_of_the_name_that_slices_name_is_the_services_own_before_it_has_the_labels() {
    for (name, held, shown) in [("a", &[][..], &[][..]), ("b", &[DeadBackend], &[Reused])] {
        let (mut world, a) = listing_a(Some(selecting("pg")));
        let next = |pod: Pod| Pod {
            uid: uid("next"),
            ..pod
        };
        world.deleted(&dead(&a)).denies(&[DeadBackend]);
        world
            .pod(&next(pending("shop", name, "db")))
            .denies_as(name, held);
        world
            .pod(&next(pod("shop", name, "db", &[X])))
            .denies_as(name, shown);
        world
            .pod(&next(pod("shop", name, "db", &[Y])))
            .denies_as("it has another IP", &[DeadBackend]);
    }
}

/// Slices of another Service name the others of its name.
#[test]
fn a_pod_whose_name_very_many_had_may_be_the_own_of_each_service_whose_slices_name_pods_of_its_namespace()
 {
    for (namespace, others, reasons) in [
        ("shop", 8, &[Reused][..]),
        ("shop", 9, &[]),
        ("other", 9, &[Reused]),
    ] {
        let (mut world, _) = listing_a(Some(selecting("pg")));
        let b = pod(namespace, "b", "db", &[X]);
        for number in 0..others {
            let name = format!("memory-{number}");
            let gone = Pod {
                uid: uid(&name),
                ..pod(namespace, "b", "db", &[])
            };
            let service = Some(ObjectName::new(namespace, "memory"));
            world.pod(&gone);
            world.tell(shown_slice(Slice {
                service,
                ..slice(&name, &[(Y, Some(gone.uid))])
            }));
            world.deleted(&gone);
        }
        world
            .pod(&b)
            .denies_as(&format!("{others} of {namespace}"), reasons);
    }
}

#[test]
fn slices_that_name_an_ended_pod_end_what_is_denied_to_the_next_one_of_its_name_wherever_it_is() {
    let (mut world, pods) = World::cluster().with_backends(2);
    let [first, other] = [&pods[0], &pods[1]];
    world.slice(&endpoints(&pods[1..])).later(MEMORY * 2);
    world
        .deleted(&dead(first))
        .pod(&dead(other))
        .denies(&[DeadBackend]);
    let next = Pod {
        uid: uid("next"),
        ..pod("shop", &first.name.name, "db", &other.ips)
    };
    world.pod(&next).denies(&[Reused]);
    world
        .tell(shown_slice(slice("late", &endpoints(&pods[..1]))))
        .denies(&[DeadBackend]);
    let denied = world.denials();
    assert_eq!((denied[0].ip, denied[0].meant), (first.ips[0], first.uid));
}

#[test]
fn a_pod_of_another_namespace_is_a_stranger() {
    let (mut world, _) = listing_a(None);
    world
        .pod(&pending("other", "b", "pg"))
        .denies(&[DeadBackend]);
    world.pod(&pod("other", "b", "pg", &[X])).denies(&[Reused]);
}

#[test]
fn the_namespaces_are_those_of_the_pods_that_slices_name_and_not_the_services() {
    let mut world = World::cluster();
    let a = pod("other", "a", "activator", &[X]);
    world.tell(service(Service {
        selector: None,
        ..web()
    }));
    world.pod(&a).tell(shown_slice(foreign("copy", &a)));
    world.pod(&dead(&a)).denies(&[DeadBackend]);
    let next = pending("other", "b", "activator");
    world.pod(&next).denies_as("it may hold the IP", &[]);
    world.pod(&pod("other", "b", "activator", &[X])).denies(&[]);
    world
        .deleted(&dead(&next))
        .pod(&pod("shop", "c", "web", &[X]))
        .denies(&[Reused]);
    let named = pod("shop", "d", "web", &[Y]);
    let second = Slice {
        name: ObjectName::new("shop", "second"),
        ..slice("second", &[(Y, Some(named.uid))])
    };
    world
        .pod(&named)
        .tell(shown_slice(second.clone()))
        .denies_as("slices name a pod of shop", &[]);
    world
        .tell(Fact::Slice(Change::Deleted(second)))
        .denies_as("they did recently", &[]);
}

#[test]
fn a_selector_proves_nothing_where_another_writer_lists_a_pod_or_did() {
    for (is_foreign, reasons) in [(false, &[Reused][..]), (true, &[])] {
        let mut world = World::cluster();
        world.tell(service(Service {
            selector: Some(selecting("leader")),
            ..web()
        }));
        let a = pod("shop", "a", "leader", &[X]);
        let listed = Slice {
            foreign: is_foreign,
            ..foreign("web", &a)
        };
        world.pod(&a).tell(shown_slice(listed.clone()));
        world.pod(&dead(&a)).denies(&[DeadBackend]);
        world.pod(&pod("shop", "b", "pg", &[X])).denies(reasons);
        world
            .tell(Fact::Slice(Change::Deleted(listed)))
            .denies(reasons);
    }
}

#[test]
fn a_selector_proves_again_once_no_endpoint_that_another_writer_listed_is_remembered() {
    let (mut world, _) = listing_a(Some(selecting("pg")));
    let c = pod("shop", "c", "pg", &[Y]);
    let second = Slice {
        foreign: true,
        ..slice("second", &[(Y, Some(c.uid))])
    };
    world
        .pod(&c)
        .tell(shown_slice(second.clone()))
        .tell(Fact::Slice(Change::Deleted(second)));
    world
        .pod(&pod("shop", "b", "api", &[X]))
        .denies_as("another writer listed a pod recently", &[]);
    world.later(Duration::from_mins(11)).denies(&[Reused]);
}

#[test]
fn a_selector_proves_nothing_while_slices_list_pods_that_it_does_not_select_dead_or_alive() {
    let (mut world, _) = listing_a(Some(selecting("only-its-controller-knows")));
    world.pod(&pending("other", "c", "pg"));
    world
        .pod(&pod("shop", "b", "pg", &[X]))
        .denies_as("the dead pod shows it", &[]);

    let (mut world, _) = listing_a(Some(selecting("pg")));
    world.pod(&pod("shop", "b", "api", &[X])).denies(&[Reused]);
    let c = pod("shop", "c", "api", &[Y]);
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
fn a_selector_proves_again_once_a_listed_pod_has_a_label_that_it_selects() {
    let (mut world, _) = listing_a(Some(selecting("pg")));
    let c = pod("shop", "c", "api", &[Y]);
    world
        .pod(&c)
        .tell(shown_slice(slice("second", &[(Y, Some(c.uid))])));
    world.pod(&pod("shop", "b", "api", &[X])).denies(&[]);
    world.pod(&pod("shop", "c", "pg", &[Y])).denies(&[Reused]);
}

#[test]
fn a_selector_proves_nothing_if_the_pod_that_it_does_not_select_is_listed_after_all_that_are_compared()
 {
    let (mut world, _) = listing_a(Some(selecting("pg")));
    let ports: Vec<SlicePort> = (1..=16).map(|port| tcp(&port.to_string(), port)).collect();
    for number in 0..6 {
        let endpoints = (0..=254)
            .map(|last: u8| endpoint(Addr::v4([10, 20, number, last]), None))
            .collect();
        world.tell(shown_slice(Slice {
            endpoints,
            ports: ports.clone(),
            ..slice(&number.to_string(), &[])
        }));
    }
    let c = pod("shop", "c", "api", &[Y]);
    world
        .pod(&c)
        .pod(&pod("shop", "b", "api", &[X]))
        .denies(&[Reused]);
    world
        .tell(shown_slice(slice("second", &[(Y, Some(c.uid))])))
        .denies(&[]);
}

#[test]
fn a_selector_of_many_labels_is_compared_with_fewer_listings() {
    for (count, reasons) in [(7, &[Reused][..]), (64, &[])] {
        let names: Vec<String> = (0..count).map(|number| format!("label-{number}")).collect();
        let mut world = World::cluster();
        let labels = names.iter().map(|name| (name, "x")).collect();
        let a = Pod {
            labels,
            ..pod("shop", "a", "pg", &[X])
        };
        world.pod(&a).slice(&[(X, Some(a.uid))]);
        let ports: Vec<SlicePort> = (1..=16).map(|port| tcp(&port.to_string(), port)).collect();
        let endpoints = (0..=254)
            .map(|last| endpoint(Addr::v4([10, 20, 0, last]), None))
            .collect();
        world.tell(shown_slice(Slice {
            endpoints,
            ports,
            ..slice("more", &[])
        }));
        let selector = Some(names.iter().map(|name| (name, "x")).collect());
        world.tell(service(Service { selector, ..web() }));
        world.pod(&dead(&a)).denies(&[DeadBackend]);
        world
            .pod(&pod("shop", "b", "pg", &[X]))
            .denies_as(&format!("{count} labels"), reasons);
    }
}

#[test]
fn a_death_that_outlives_a_start_over_shows_that_the_selector_proves_nothing() {
    let selector = Some(selecting("only-its-controller-knows"));
    let (mut world, a) = listing_a(selector.clone());
    let c = pod("other", "c", "c", &[Y]);
    world.pod(&dead(&c));
    world.deleted(&dead(&a));
    world.pod(&c);
    assert_eq!(world.state.take_revived(), Some(c.name.clone()));
    world.list_all_but_pods();
    world.tell(service(Service { selector, ..web() }));
    world.slice(&[(X, Some(a.uid))]);
    world.list(&[c]).denies(&[DeadBackend]);
    world.pod(&pod("shop", "b", "pg", &[X])).denies(&[]);
}

#[test]
fn a_live_pod_that_any_slice_of_the_service_lists_is_its_own() {
    let (mut world, _) = listing_a(Some(selecting("pg")));
    let b = pod("other", "b", "api", &[X, Y]);
    world.pod(&b).denies(&[Reused]);
    world
        .tell(shown_slice(slice("second", &[(Y, Some(b.uid))])))
        .denies(&[]);
}

#[test]
fn a_slice_without_ports_lists_its_addresses_on_any_port() {
    let (mut world, _) = listing_a(Some(selecting("pg")));
    let any = SlicePort {
        port: ANY_PORT,
        ..tcp("", 1)
    };
    let second = Slice {
        ports: vec![any],
        ..slice("second", &[(X, None)])
    };
    world
        .tell(shown_slice(second.clone()))
        .denies_as("it may be in service", &[]);
    world
        .tell(Fact::Slice(Change::Deleted(second)))
        .denies(&[DeadBackend]);
    let (mut world, _) = World::with_an_orphan();
    world.tell(shown_slice(Slice {
        ports: vec![any],
        ..slice("second", &[(X, None)])
    }));
    assert!(!world.is_orphan(X));
}

#[test]
fn services_that_never_had_an_endpoint_keep_no_listing_of_another_one_out() {
    let (mut world, _) = World::with_an_orphan();
    for number in 0..1_500 {
        let name = format!("preview-{number}");
        let preview = ObjectName::new("vms", name.as_str());
        let empty = Slice {
            service: Some(preview.clone()),
            name: preview,
            ..slice(&name, &[])
        };
        world
            .tell(shown_slice(empty.clone()))
            .tell(Fact::Slice(Change::Deleted(empty)));
    }
    assert!(world.is_orphan(X));
    let vm = ObjectName::new("vms", "vm");
    world.tell(shown_slice(Slice {
        service: Some(vm),
        ..slice("vm", &[(X, None)])
    }));
    assert!(!world.is_orphan(X), "something alive has it");
}
