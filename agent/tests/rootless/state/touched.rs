//! Facts that change more than their own object. One story each; `incremental` searches for more.

use super::*;
use epguard_core::history::History;

fn suspects(world: &World) -> Vec<Addr> {
    world.state.tables().suspects.keys().copied().collect()
}

#[test]
fn a_draining_pod_is_counted_on_its_node_at_the_ip_that_it_has_now() {
    let (mut world, a) = World::cluster().with_a();
    let draining = Pod {
        deleting: true,
        ..a
    };
    for (pod, expected) in [
        (draining.clone(), &[X][..]),
        (
            Pod {
                ips: [Y].into(),
                ..draining.clone()
            },
            &[Y],
        ),
        (
            Pod {
                node: Some("node-b".into()),
                ..draining
            },
            &[],
        ),
    ] {
        world.pod(&pod);
        assert_eq!(suspects(&world), expected, "{pod:?}");
    }
}

#[test]
fn an_address_that_a_node_shows_is_judged_no_more() {
    let (mut world, _) = World::where_a_died();
    world.denies(&[DeadBackend]);
    world
        .tell(shown_node(Node {
            addresses: vec![X],
            ..node("node-b", 2)
        }))
        .denies(&[]);
}

#[test]
fn an_endpoint_that_left_the_index_is_neither_counted_nor_kept() {
    let (mut world, pods) = World::cluster().with_backends(2);
    let [a, b] = pods.try_into().unwrap();
    world.pod(&Pod {
        deleting: true,
        ..a.clone()
    });
    world.deleted(&b);
    world.slice(&[]);
    assert!(suspects(&world).contains(&X));
    assert!(world.state.pod_name(b.uid).is_some());
    world.later(MEMORY * 2);
    assert_eq!(suspects(&world), []);
    assert_eq!(world.state.pod_name(b.uid), None);
}

/// Whichever UID is the greater: the pod that was listed last is the one that is meant.
#[test]
fn a_packet_does_not_change_the_pod_that_was_meant() {
    for names in [["a", "b"], ["b", "a"]] {
        let mut world = World::cluster();
        let [a, b] = names.map(|name| pod("shop", name, "web", &[X]));
        for pod in [&a, &b] {
            world.pod(pod);
            world.slice(&[(X, Some(pod.uid))]);
            world.pod(&dead(pod));
            world.deleted(&dead(pod));
        }
        world.slice(&[]);
        let target = *world.state.tables().denied.keys().next().unwrap();
        let socket = Endpoint {
            ip: X,
            port: target.port,
            protocol: Protocol::Tcp,
        };
        world.state.hit(world.now, target.service, &socket);
        world.pod(&pod("other", "c", "c", &[X]));
        assert_eq!(world.denials()[0].meant, b.uid);
    }
}

#[test]
fn a_namespace_that_opts_out_ends_denials_of_orphan_ips_whose_pods_are_deleted() {
    let (mut world, a) = World::with_an_orphan();
    world.deleted(&dead(&a));
    assert!(world.is_orphan(X));
    world.tell(shown_namespace("other", Mode::Off));
    assert!(!world.is_orphan(X));
    let (mut world, a) = World::cluster().with_a();
    world
        .tell(shown_namespace("shop", Mode::Off))
        .pod(&dead(&a));
    assert!(!world.is_orphan(X));
    world.tell(shown_namespace("shop", Mode::Enforce));
    assert!(world.is_orphan(X), "it opted in again");
}

#[test]
fn the_history_records_a_change_of_many_ips_in_parts_and_leaves_none_out() {
    let (mut world, _) = World::cluster().with_a();
    let mut history = History::default();
    let note =
        |history: &mut History, world: &mut World| history.record(world.now, 1, &mut world.state);
    while history.lacks(&world.state) {
        note(&mut history, &mut world);
    }
    let ips: Vec<Addr> = (20..220).map(|last| Addr::v4([10, 244, 1, last])).collect();
    for (number, ip) in ips.iter().enumerate() {
        world.pod(&pod("shop", &format!("new-{number}"), "web", &[*ip]));
    }
    note(&mut history, &mut world);
    assert!(
        history.lacks(&world.state),
        "200 IPs are more than one turn records"
    );
    while history.lacks(&world.state) {
        note(&mut history, &mut world);
    }
    assert_eq!(
        ips.iter()
            .map(|ip: &Addr| history.chronicle(*ip, View::default()).steps.len())
            .collect::<Vec<_>>(),
        vec![1; 200]
    );
}

#[test]
fn a_live_pod_that_the_watch_shows_as_it_was_touches_nothing() {
    let (mut world, a) = World::cluster().with_a();
    let touched = |world: &mut World, pod: &Pod| {
        world.state.take_ips_to_record(usize::MAX, usize::MAX);
        world.pod(pod);
        world.state.has_ips_to_record()
    };
    let as_it_was = a.clone();
    assert!(!touched(&mut world, &as_it_was));
    let draining = Pod {
        deleting: true,
        ..a
    };
    assert!(touched(&mut world, &draining));
    assert!(!touched(&mut world, &draining));
    assert!(touched(&mut world, &dead(&draining)));
}

#[test]
fn a_narrow_list_of_what_is_known_touches_nothing() {
    let (mut world, pods) = World::cluster().with_backends(4);
    world.pod(&dead(&pods[0]));
    world.state.take_ips_to_record(usize::MAX, usize::MAX);
    let shown = [&[dead(&pods[0])], &pods[1..]].concat();
    world.tell(Fact::Pod(Change::Part(part(
        Selection::OnNode("node-a".into()),
        shown,
    ))));
    assert!(!world.state.has_ips_to_record());
}

#[test]
fn a_narrow_list_of_a_death_that_only_lists_have_shown_touches_nothing_the_second_time() {
    let (mut world, pods) = World::cluster().with_backends(1);
    let ended = dead(&pods[0]);
    world.list(std::slice::from_ref(&ended));
    let touched = |world: &mut World| {
        world.state.take_ips_to_record(usize::MAX, usize::MAX);
        let shown = vec![ended.clone()];
        world.tell(Fact::Pod(Change::Part(part(
            Selection::OnNode("node-a".into()),
            shown,
        ))));
        world.state.has_ips_to_record()
    };
    assert_eq!([touched(&mut world), touched(&mut world)], [true, false]);
}

#[test]
fn an_object_whose_end_cannot_be_read_is_gone_and_that_proves_nothing() {
    let (mut world, a) = World::cluster().with_a();
    let nothing = |pod: &Pod| Pod {
        uid: pod.uid,
        name: pod.name.clone(),
        ..Pod::default()
    };
    world.pod(&terminal(&a)).denies(&[RetiredBackend]);
    world
        .tell(Fact::Pod(Change::Gone(nothing(&a))))
        .denies_as("its phase may be taken back", &[]);
    world
        .pod(&dead(&a))
        .tell(Fact::Pod(Change::Gone(nothing(&a))))
        .denies_as("a death stays", &[DeadBackend]);
    assert_eq!(world.state.take_revived(), None);
    world.pod(&b()).denies(&[Reused]);
    world
        .tell(Fact::Pod(Change::Gone(nothing(&b()))))
        .denies_as("its claim is gone", &[DeadBackend]);
    world.tell(Fact::Slice(Change::Gone(slice("web", &[]))));
    assert!(
        report::view_ip(&world.state, X).services[0].endpoints[0]
            .targets
            .iter()
            .all(|target| !target.listed)
    );
    world
        .tell(Fact::Service(Change::Gone(web())))
        .denies_as("without a Service", &[]);
}
