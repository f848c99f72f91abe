//! Second lists: the narrow lists that stopped denials await. One story each.

mod evidence;

use super::*;
use std::collections::BTreeSet;

fn requested(world: &mut World, after: Duration) -> Vec<Selection> {
    world.now += after;
    let lists = world.state.take_second_lists(world.now);
    lists
        .into_iter()
        .filter_map(|list| list.selection)
        .collect()
}

/// The first lists for what just happened.
fn first(world: &mut World) -> Vec<Selection> {
    assert_eq!(
        requested(world, Duration::ZERO),
        [],
        "a slice may settle it yet"
    );
    requested(world, Duration::from_secs(1))
}

fn labelled(namespace: &str, app: &str) -> Selection {
    Selection::Labelled {
        namespace: namespace.into(),
        selector: [("app", app)].into_iter().collect(),
        node: None,
    }
}

fn slices_of_web() -> Selection {
    Selection::slices_of(&ObjectName::new("shop", "web"))
}

fn on_node_a() -> Selection {
    Selection::OnNode("node-a".into())
}

fn all_of(namespace: &str) -> Selection {
    Selection::Labelled {
        namespace: namespace.into(),
        selector: Selector::default(),
        node: None,
    }
}

fn all_of_shop() -> Selection {
    all_of("shop")
}

fn of_pods(part: Part<Pod>) -> Fact {
    Fact::Pod(Change::Part(part))
}

fn show(world: &mut World, selection: Selection, pods: &[Pod]) {
    world.tell(of_pods(part(selection, pods.to_vec())));
}

fn slices_again(endpoints: &[(Addr, Option<Uid>)]) -> Fact {
    Fact::Slice(Change::Part(part(
        slices_of_web(),
        vec![slice("web", endpoints)],
    )))
}

fn show_slices(world: &mut World, endpoints: &[(Addr, Option<Uid>)]) {
    world.tell(slices_again(endpoints));
}

/// Three of four pods of the Service have ended, one after another.
fn three_of_four_ended() -> (World, Vec<Pod>) {
    let (mut world, mut pods) = World::cluster().with_backends(4);
    for pod in &mut pods[..3] {
        *pod = dead(pod);
        world.pod(pod);
    }
    assert_eq!((world.carried_out().len(), world.stopped().len()), (2, 1));
    (world, pods)
}

#[test]
fn a_mass_takes_one_list_of_the_services_pods_and_one_of_its_slices() {
    let (mut world, pods) = three_of_four_ended();
    assert_eq!(
        first(&mut world),
        [labelled("shop", "web"), slices_of_web()]
    );
    show(&mut world, labelled("shop", "web"), &pods);
    assert_eq!(world.stopped().len(), 1, "the slices are to agree too");
    show_slices(&mut world, &endpoints(&pods));
    assert_eq!((world.carried_out().len(), world.stopped().len()), (3, 0));
    assert_eq!(requested(&mut world, Duration::from_mins(10)), []);
}

#[test]
fn a_narrow_list_that_disagrees_drops_pending_denials_and_deaths() {
    for change in [terminal, dead] {
        let (mut world, pods) = World::cluster().with_backends(4);
        let ended: Vec<Pod> = pods.iter().map(change).collect();
        world.list(&ended).denies_and_stops(0, 4);
        show(&mut world, labelled("shop", "web"), &pods);
        assert_eq!(world.reasons(), []);
        assert_eq!(requested(&mut world, Duration::from_mins(10)), []);
    }
}

#[test]
fn two_lists_agree_only_if_none_between_them_shows_the_pods_alive() {
    let (mut world, pods) = World::cluster().with_backends(4);
    world.slice(&[]);
    for shown_by_events in [false, true, false] {
        world
            .list(&pods.iter().map(dead).collect::<Vec<Pod>>())
            .denies_and_stops(0, 4);
        if shown_by_events {
            for pod in &pods {
                world.pod(pod);
            }
        }
        show(&mut world, on_node_a(), &pods);
        assert_eq!(world.reasons(), []);
    }
}

#[test]
fn only_narrow_lists_of_the_needed_objects_that_are_sent_and_shown_in_time_settle_a_denial() {
    let b = pod("shop", "b", "web", &[X]);
    let of = |selection, pods: &[Pod]| part(selection, pods.to_vec());
    let of_web = |pods: &[Pod]| of(labelled("shop", "web"), pods);
    let listed = list_of(&[dead(&a())]);
    let slices = slices_again(&[(X, Some(a().uid))]);
    let lacks_b = of_pods(Part {
        later: BTreeSet::from([b.name.clone()]),
        ..of_web(&[dead(&a())])
    });
    let other = |selection| vec![listed.clone(), of_pods(of(selection, &[])), slices.clone()];
    let agreed = [listed.clone(), listed.clone()];
    let lacking = [shown(dead(&a())), shown(b.clone()), listed.clone()];
    let shows_b = of_pods(of_web(&[dead(&a()), b.clone()]));
    for (sentence, facts, carried_out, stopped) in [
        ("of another label", other(labelled("shop", "api")), 0, 1),
        (
            "of another namespace",
            other(labelled("other", "web")),
            0,
            1,
        ),
        (
            "of more pods",
            vec![
                listed.clone(),
                of_pods(of(all_of_shop(), &[dead(&a())])),
                slices.clone(),
            ],
            0,
            1,
        ),
        (
            "the whole lists agree",
            [&agreed[..], &[listed.clone(), slices.clone()]].concat(),
            1,
            0,
        ),
        ("the first list lacks an owner", lacking.to_vec(), 0, 1),
        (
            "the narrow one shows it",
            [&lacking[..], &[shows_b]].concat(),
            0,
            0,
        ),
        (
            "the watch shows an owner later",
            vec![listed.clone(), shown(b), lacks_b, slices.clone()],
            0,
            0,
        ),
    ] {
        let (mut world, _) = World::cluster().with_a();
        world.tell_all(facts);
        assert_eq!(
            (world.carried_out().len(), world.stopped().len()),
            (carried_out, stopped),
            "{sentence}"
        );
    }
}

#[test]
fn a_narrow_list_that_was_sent_before_the_denial_was_pending_is_no_second_list() {
    let (mut world, a) = World::cluster().with_a();
    let earlier = world.now;
    world
        .tell(list_of(&[dead(&a)]))
        .tell(slices_again(&[(X, Some(a.uid))]));
    for (sent, carried_out) in [
        (earlier, 0),
        (earlier + Duration::from_millis(10), 0),
        (world.now, 1),
    ] {
        let shown = Part {
            sent,
            ..part(labelled("shop", "web"), vec![dead(&a)])
        };
        world
            .tell(of_pods(shown))
            .denies_and_stops(carried_out, 1 - carried_out);
    }
}

#[test]
fn a_list_that_does_not_come_is_requested_again_after_longer_and_longer() {
    let (mut world, _) = three_of_four_ended();
    assert_eq!(first(&mut world).len(), 2);
    let mut at = Vec::new();
    for second in 1..1_500 {
        let lists = requested(&mut world, Duration::from_secs(1)).len();
        at.extend((lists > 0).then_some((second, lists)));
    }
    assert_eq!(
        at,
        [(32, 2), (94, 2), (216, 2), (458, 2), (940, 2), (1422, 2)]
    );
}

/// A pod of the n-th Service of a namespace has ended: the Service, which selects it by this label,
/// its slice, and the pod.
fn ended_behind(namespace: &str, number: u8, app: &str) -> (Service, Slice, Pod) {
    let net = if namespace == "shop" { 1 } else { 2 };
    let name: ObjectName = ObjectName::new(namespace, format!("{namespace}-{number}"));
    let vips = vec![Addr::v4([10, 96, net, number])];
    let selector = Some([("app", app)].into_iter().collect());
    let ended = dead(&pod(
        namespace,
        &name.name,
        app,
        &[Addr::v4([10, 244, net, 100 + number])],
    ));
    let slice = Slice {
        name: name.clone(),
        service: Some(name.clone()),
        ..slice(&name.name, &endpoints(std::slice::from_ref(&ended)))
    };
    (
        Service {
            name,
            vips,
            selector,
            ..web()
        },
        slice,
        ended,
    )
}

/// A cluster of these, whose pods one list shows.
fn with_all(ended: &[(Service, Slice, Pod)]) -> World {
    let mut world = World::cluster();
    for (of, slice, _) in ended {
        world
            .tell(service(of.clone()))
            .tell(shown_slice(slice.clone()));
    }
    let pods: Vec<Pod> = ended.iter().map(|(.., pod)| pod.clone()).collect();
    world.list(&pods);
    assert_eq!(world.stopped().len(), ended.len());
    world
}

#[test]
fn a_namespace_requests_a_few_lists_and_others_are_not_hindered() {
    let mut ended: Vec<(Service, Slice, Pod)> = (0..8)
        .map(|number| ended_behind("shop", number, &format!("app-{number}")))
        .collect();
    ended.push(ended_behind("other", 0, "web"));
    let mut world = with_all(&ended);
    let lists = first(&mut world);
    assert_eq!(
        lists
            .iter()
            .filter(|selection| match selection {
                Selection::Labelled { namespace, .. } | Selection::SlicesOf { namespace, .. } => {
                    namespace == "other"
                }
                Selection::OnNode(_) => false,
            })
            .count(),
        2
    );
    assert_eq!(lists.len(), 2 + 8 + 1, "and one of this node's pods");
    let later = requested(&mut world, Duration::from_mins(1));
    assert_eq!(
        later.len(),
        2 + 2 + 1,
        "those that did not come, and one each 30 s"
    );
}

#[test]
fn the_slices_of_many_services_of_a_namespace_are_one_list() {
    let ended: Vec<(Service, Slice, Pod)> = (0..20)
        .map(|number| ended_behind("shop", number, "web"))
        .collect();
    let mut world = with_all(&ended);
    let mut all = Selection::slices_of(&ended[0].0.name);
    for (service, ..) in &ended {
        assert!(all.join(&Selection::slices_of(&service.name)));
    }
    assert_eq!(
        first(&mut world),
        [labelled("shop", "web"), on_node_a(), all.clone()]
    );
    let pods: Vec<Pod> = ended.iter().map(|(.., pod)| pod.clone()).collect();
    show(&mut world, labelled("shop", "web"), &pods);
    assert_eq!(world.carried_out(), []);
    let slices = ended.into_iter().map(|(_, slice, _)| slice).collect();
    world.tell(Fact::Slice(Change::Part(part(all, slices))));
    assert_eq!(world.carried_out().len(), 20);
}

#[test]
fn agents_of_a_large_cluster_spread_their_lists_over_more_time_and_those_of_a_start_over_alike() {
    assert_eq!(
        [1, 400, 1_000, 5_000].map(|nodes| request_spread(nodes).as_secs()),
        [2, 2, 5, 25]
    );
    let mut world = World::cluster();
    let nodes = (0..5_000).map(|number| Node {
        name: format!("node-{number}").into(),
        pod_cidrs: Vec::new(),
        ..node("node-a", 1)
    });
    world.tell(Fact::Node(Change::Reset(nodes.collect())));
    // The two nodes that are gone count, too.
    let spread = request_spread(5_002);
    assert_eq!(world.state.spread(), spread);
    world.state.start_over(world.now);
    assert_eq!(world.state.spread(), spread);
}
