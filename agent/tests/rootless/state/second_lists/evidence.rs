//! Which lists a stopped denial awaits.

use super::*;

#[test]
fn the_pods_of_a_namespace_are_asked_for_if_slices_list_one_that_the_selector_does_not_select() {
    let (mut world, _) = World::cluster().with_a();
    let c = pod("shop", "c", "api", &[Y]);
    world.pod(&c);
    world.slice(&[(Y, Some(c.uid))]);
    world.list(&[dead(&c)]);
    assert_eq!(
        first(&mut world),
        [all_of_shop(), on_node_a(), slices_of_web()]
    );
    show_slices(&mut world, &[(Y, Some(c.uid))]);
    assert_eq!(world.stopped(), [Y], "no second list has shown its end");
    show(&mut world, all_of_shop(), &[dead(&c)]);
    assert_eq!(world.carried_out(), [Y]);
}

#[test]
fn where_a_selector_proves_nothing_all_pods_of_the_namespace_are_asked_for() {
    let unselective = || Some([("app", "only-its-controller-knows")].into_iter().collect());
    for (selector, starts) in [
        (None, true),
        (None, false),
        (unselective(), true),
        (unselective(), false),
    ] {
        let mut world = World::cluster();
        world.tell(service(Service { selector, ..web() }));
        let a = pod("shop", "a", "pg", &[X]);
        let b = pod("shop", "b", "pg", &[Y]);
        world.pod(&a);
        world.pod(&b);
        let listed = [(X, Some(a.uid)), (Y, Some(b.uid))];
        world.slice(&listed);
        let mut pods = vec![dead(&a), b];
        world.list(&pods);
        assert_eq!(world.stopped(), [X]);
        assert_eq!(
            first(&mut world),
            [all_of_shop(), on_node_a(), slices_of_web()]
        );
        show_slices(&mut world, &listed);
        show(&mut world, labelled("shop", "pg"), &pods);
        assert_eq!(
            world.stopped(),
            [X],
            "the next replica may be starting, with any labels"
        );
        if starts {
            pods.push(Pod {
                sandbox: Sandbox::Unsettled,
                ..pod("shop", "c", "another", &[])
            });
        }
        show(&mut world, all_of_shop(), &pods);
        let expected: &[Addr] = if starts { &[] } else { &[X] };
        assert_eq!(world.carried_out(), expected);
        assert_eq!(world.stopped(), []);
    }
}

/// A pod of another namespace, and a slice of the Service that lists it.
fn copied(ip: Addr) -> (Pod, Slice) {
    let copied = pod("other", "c", "api", &[ip]);
    let copy = slice("copy", &[(ip, Some(copied.uid))]);
    (
        copied,
        Slice {
            foreign: true,
            namespaces: ["other".into()].into(),
            ..copy
        },
    )
}

#[test]
fn the_pods_of_all_namespaces_that_slices_name_are_asked_for() {
    let (mut world, a) = World::cluster().with_a();
    let (copied, copy) = copied(X);
    world.pod(&copied).tell(shown_slice(copy.clone()));
    let pods = [dead(&a), dead(&copied)];
    world.list(&pods);
    let of_both = [all_of("other"), all_of_shop()];
    assert_eq!(
        first(&mut world),
        [&of_both[..], &[on_node_a(), slices_of_web()]].concat()
    );
    show(&mut world, of_both[0].clone(), &pods[1..]);
    let slices = vec![slice("web", &[(X, Some(a.uid))]), copy];
    world.tell(Fact::Slice(Change::Part(part(slices_of_web(), slices))));
    assert_eq!((world.carried_out(), world.stopped()), (vec![], vec![X]));
    show(&mut world, of_both[1].clone(), &pods[..1]);
    assert_eq!(world.carried_out(), [X]);
}

#[test]
fn the_pods_of_a_large_service_are_asked_for_by_the_node_that_hands_out_the_ip() {
    let (mut world, pods) = World::cluster().with_backends(120);
    let mut listed = pods.clone();
    listed[0] = dead(&pods[0]);
    world.list(&listed);
    let on_node = Selection::Labelled {
        namespace: "shop".into(),
        selector: [("app", "web")].into_iter().collect(),
        node: Some("node-a".into()),
    };
    assert_eq!(first(&mut world), [on_node, on_node_a(), slices_of_web()]);
}

#[test]
fn a_denial_that_a_list_of_services_began_waits_for_another_one_which_is_requested() {
    let (mut world, a) = World::cluster().with_a();
    world.tell(Fact::Service(Change::Deleted(web())));
    world.pod(&dead(&a)).denies(&[]);
    let list = || Fact::Service(Change::Reset(vec![web()]));
    world.tell(list());
    assert_eq!(world.stopped(), [X]);
    show(&mut world, labelled("shop", "web"), &[dead(&a)]);
    show_slices(&mut world, &[(X, Some(a.uid))]);
    assert_eq!(world.stopped(), [X]);
    let kinds = |world: &mut World, after: Duration| -> Vec<Watched> {
        world.now += after;
        let lists = world.state.take_second_lists(world.now).into_iter();
        lists.map(|SecondList { kind, .. }| kind).collect()
    };
    assert_eq!(kinds(&mut world, Duration::ZERO), []);
    assert_eq!(
        kinds(&mut world, Duration::from_secs(1)),
        [Watched::Services]
    );
    assert_eq!(kinds(&mut world, Duration::from_secs(10)), []);
    world.tell(list());
    assert_eq!(world.carried_out(), [X]);
}

#[test]
fn a_denial_that_needs_fewer_lists_than_before_is_released_once_these_agree() {
    let mut world = World::cluster();
    let (copied, copy) = copied(Y);
    world.pod(&copied).tell(shown_slice(copy.clone()));
    world.list(&[dead(&copied)]);
    show(&mut world, all_of("other"), &[dead(&copied)]);
    world.tell(Fact::Slice(Change::Part(part(slices_of_web(), vec![copy]))));
    assert_eq!(
        world.stopped(),
        [Y],
        "the pods that the Service selects are to agree too"
    );
    world.tell(service(Service {
        selector: None,
        ..web()
    }));
    assert_eq!(world.carried_out(), [Y]);
}

#[test]
fn a_death_that_only_narrow_lists_confirm_proves_no_denial_of_another_service_alone() {
    let (mut world, a) = World::cluster().with_a();
    let mut api = Service {
        vips: vec![Addr::v4([10, 96, 0, 2])],
        ..web()
    };
    api.name.name = "api".into();
    world.tell(service(api));
    world.list(&[dead(&a)]);
    show(&mut world, labelled("shop", "web"), &[dead(&a)]);
    show_slices(&mut world, &[(X, Some(a.uid))]);
    assert_eq!((world.carried_out(), world.stopped()), (vec![X], vec![]));
    let mut of_api = slice("api", &[(X, Some(a.uid))]);
    of_api.service = Some(ObjectName::new("shop", "api"));
    world.tell(shown_slice(of_api));
    assert_eq!(
        world.stopped(),
        [X],
        "pods of that Service may be missing in the first list"
    );
    world.list(&[dead(&a)]).denies_and_stops(1, 1);
}

#[test]
fn after_a_death_on_this_node_that_one_list_shows_all_pods_of_the_node_are_asked_for() {
    let mut world = World::cluster();
    let pods: Vec<Pod> = (0..2).map(|number| dead(&backend(number))).collect();
    world.list(&pods);
    assert!(world.state.tables().terminated.is_empty());
    assert_eq!(first(&mut world), [on_node_a()]);
    show(&mut world, on_node_a(), &pods);
    assert_eq!(world.state.tables().terminated.len(), 2);
    assert_eq!(requested(&mut world, Duration::from_mins(10)), []);
}

#[test]
fn a_narrow_list_of_other_pods_of_the_node_leaves_an_ip_that_one_list_shows_unused() {
    let (mut world, a) = World::cluster().with_a();
    world.list(&[dead(&a)]);
    let selections = [labelled("shop", "web"), on_node_a(), slices_of_web()];
    assert_eq!(first(&mut world), selections);
    show(&mut world, labelled("shop", "web"), &[dead(&a)]);
    show_slices(&mut world, &[(X, Some(a.uid))]);
    assert_eq!(world.carried_out(), [X]);
    assert!(
        world.state.tables().terminated.is_empty(),
        "another pod may hold it"
    );
    let earlier = Part {
        sent: Duration::ZERO,
        ..part(on_node_a(), vec![dead(&a)])
    };
    world.tell(of_pods(earlier));
    assert!(
        world.state.tables().terminated.is_empty(),
        "sent before the first list"
    );
    show(&mut world, on_node_a(), &[dead(&a)]);
    assert_eq!(world.state.tables().terminated.len(), 1);
}

#[test]
fn two_possible_holders_that_one_narrow_list_shows_end_a_denial_as_one_does() {
    for holders in 1..=2 {
        let settings = Settings {
            ipam: Ipam::Cluster,
            ..settings()
        };
        let (mut world, a) = World::with(settings).with_a();
        world.pod(&dead(&a));
        assert_eq!(world.carried_out(), [X]);
        let on_b = Selection::OnNode("node-b".into());
        let shown = (0..holders).map(|number| Pod {
            node: Some("node-b".into()),
            ..pending("shop", &format!("p-{number}"), "web")
        });
        show(&mut world, on_b, &shown.collect::<Vec<_>>());
        assert_eq!(world.carried_out(), [], "{holders}");
    }
}

#[test]
fn a_list_that_shows_the_pod_dead_ends_no_pending_denial_that_a_possible_holder_withdraws() {
    let mut world = World::cluster();
    let a = pod("shop", "a", "web", &[X]);
    let holder = pod("shop", "c", "web", &[]);
    world.pod(&a);
    world.pod(&dead(&a));
    let listed = slice("web", &[(X, Some(a.uid))]);
    world.tell(Fact::Slice(Change::Reset(vec![listed])));
    assert_eq!((world.carried_out(), world.stopped()), (vec![], vec![X]));
    world.pod(&holder).denies(&[]);
    show(&mut world, on_node_a(), &[dead(&a), holder]);
    world.pod(&pod("shop", "c", "web", &[Y]));
    assert_eq!((world.carried_out(), world.stopped()), (vec![], vec![X]));
}
