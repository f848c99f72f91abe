//! Assumptions of the agent about its cluster: without proof, and never made again once disproved.

use super::world::{World, dead, node, pending, pod};
use epguard_common::Addr;
use epguard_common::Reason::DeadBackend;
use epguard_core::facts::{Change, Fact, Node, Pod};
use std::time::Duration;

const OUTSIDE: Addr = Addr::v4([10, 99, 0, 1]);

fn on_b(pod: Pod) -> Pod {
    Pod {
        node: Some("node-b".into()),
        ..pod
    }
}

/// A is dead, and a pod of its Service starts on another node: whether it may get A's IP is the matter of belief.
fn with_a_candidate_elsewhere() -> (World, Pod) {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.pod(&on_b(pending("shop", "b", "web")));
    assert_eq!(world.reasons(), [DeadBackend], "ranges are believed");
    (world, dead(&a))
}

#[test]
fn a_pod_outside_its_nodes_range_is_kept_in_the_index_after_its_end() {
    let (mut world, a) = with_a_candidate_elsewhere();
    let stray = pod("other", "stray", "stray", &[OUTSIDE]);
    world.pod(&stray);
    assert_eq!(world.reasons(), []);
    world.deleted(&stray);
    world.tell(Fact::Node(Change::Applied(node("node-b", 2))));
    assert_eq!(world.reasons(), [], "nodes are indexed anew");
    world.list(&[a.clone(), on_b(pending("shop", "b", "web"))]);
    world.tell(Fact::Node(Change::Reset(vec![
        node("node-a", 1),
        node("node-b", 2),
    ])));
    assert_eq!(world.reasons(), [], "everything is listed anew");
}

#[test]
fn pods_outside_their_nodes_range_are_dropped_an_hour_after_the_last_one() {
    let hours = |world: &mut World, hours: u64| {
        for _ in 0..hours {
            world.now += Duration::from_hours(1);
            world.state.tick(world.now);
        }
    };
    let (mut world, _) = with_a_candidate_elsewhere();
    let stray = pod("other", "stray", "stray", &[OUTSIDE]);
    world.pod(&stray);
    hours(&mut world, 3);
    assert_eq!(world.reasons(), [], "it still shows the IP");
    world.deleted(&stray);
    world.state.tick(world.now + Duration::from_mins(59));
    assert_eq!(world.reasons(), []);
    hours(&mut world, 1);
    assert_eq!(world.reasons(), [DeadBackend]);

    world.pod(&stray);
    let second = pod("shop", "second", "stray", &[OUTSIDE]);
    world.pod(&second);
    world.deleted(&stray);
    world.deleted(&second);
    hours(&mut world, 3);
    assert_eq!(world.reasons(), [], "two namespaces disprove the ranges for good");
}

#[test]
fn a_pod_outside_its_nodes_range_is_kept_when_the_api_goes_back_in_time() {
    let (mut world, _) = with_a_candidate_elsewhere();
    world.pod(&pod("other", "stray", "stray", &[OUTSIDE]));
    world.state.start_over(world.now);
    let mut anew = World::cluster();
    std::mem::swap(&mut anew.state, &mut world.state);
    for fact in [
        Fact::Namespace(Change::Reset(
            ["shop", "other"]
                .map(|name| super::world::namespace(name, epguard_common::Mode::Enforce))
                .into(),
        )),
        Fact::Node(Change::Reset(vec![node("node-a", 1), node("node-b", 2)])),
        Fact::Service(Change::Reset(vec![super::world::web()])),
        Fact::Slice(Change::Reset(vec![])),
        Fact::Pod(Change::Reset(vec![])),
    ] {
        anew.tell(fact);
    }
    let (mut world, a) = anew.with_a();
    world.pod(&dead(&a));
    world.pod(&on_b(pending("shop", "b", "web")));
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_virtual_kubelet_stays_one_after_changes_of_its_node_object() {
    let changes: [Fact; 3] = [
        Fact::Node(Change::Applied(node("node-a", 1))),
        Fact::Node(Change::Deleted(node("node-a", 1))),
        Fact::Node(Change::Reset(vec![node("node-b", 2)])),
    ];
    for change in changes {
        let mut world = World::cluster();
        world.tell(Fact::Node(Change::Applied(Node {
            virtual_kubelet: true,
            ..node("node-a", 1)
        })));
        let (mut world, a) = world.with_a();
        world.pod(&dead(&a));
        assert_eq!(world.reasons(), []);
        let told = format!("{change:?}");
        world.tell(change);
        assert_eq!(world.reasons(), [], "{told}");
    }
}
