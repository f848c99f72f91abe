//! Assumptions of the agent about its cluster: without proof, and not made once they are disproved.

use super::*;

const OUTSIDE: Addr = Addr::v4([10, 99, 0, 1]);
const INSIDE: Addr = Addr::v4([10, 244, 1, 77]);

/// What shows that the ranges of nodes are not theirs alone: a pod of this node outside of its
/// range, and one of another inside.
fn strays() -> [Pod; 2] {
    let elsewhere = on("node-b", pod("other", "inside", "stray", &[INSIDE]));
    [pod("other", "outside", "stray", &[OUTSIDE]), elsewhere]
}

#[test]
fn no_ip_is_an_orphan_until_an_hour_after_the_last_pod_that_disproved_the_range() {
    for stray in strays() {
        let (mut world, _) = World::with_an_orphan();
        world.pod(&stray);
        assert!(!world.is_orphan(X), "{stray:?}");
        world.later(Duration::from_hours(3));
        assert!(!world.is_orphan(X), "it still shows the IP");
        world.deleted(&stray);
        world.later(Duration::from_mins(59));
        assert!(!world.is_orphan(X), "{stray:?}");
        world.later(Duration::from_mins(1));
        assert!(world.is_orphan(X), "{stray:?}");
    }
}

#[test]
fn whether_nodes_own_their_ranges_is_as_the_operator_says() {
    for (ipam, is_orphan) in [
        (Ipam::Auto, false),
        (Ipam::Node, true),
        (Ipam::Cluster, false),
    ] {
        let mut world = World::with(Settings { ipam, ..settings() });
        let a = pod("other", "a", "a", &[X]);
        world.pod(&a).pod(&dead(&a)).pod(&strays()[0]);
        assert_eq!(world.is_orphan(X), is_orphan, "{ipam:?}");
    }
}

#[test]
fn what_disproved_the_range_counts_when_nodes_are_listed_anew_and_when_the_api_goes_back_in_time() {
    let [stray, _] = strays();
    for is_disproved in [true, false] {
        let (mut world, _) = World::with_an_orphan();
        if is_disproved {
            world.pod(&stray);
            world.deleted(&stray);
        }
        world.tell(Fact::Node(Change::Reset(vec![
            node("node-a", 1),
            node("node-b", 2),
        ])));
        assert_eq!(world.is_orphan(X), !is_disproved);
        world.state.start_over(world.now);
        world.list_all_but_pods();
        let a = pod("other", "a2", "a", &[X]);
        world.list(&[]).pod(&a).pod(&dead(&a));
        assert_eq!(world.is_orphan(X), !is_disproved);
    }
}

#[test]
fn other_ranges_of_this_node_are_compared_with_what_all_pods_show() {
    let (mut world, _) = World::with_an_orphan();
    let elsewhere = on("node-b", pod("other", "elsewhere", "x", &[FAR]));
    world.pod(&elsewhere);
    assert!(world.is_orphan(X));
    let wider = Node {
        pod_cidrs: [1, 2]
            .map(|number| node("node-a", number).pod_cidrs[0])
            .into(),
        ..node("node-a", 1)
    };
    world.tell(Fact::Node(Change::Applied(wider)));
    assert!(
        !world.is_orphan(X),
        "node-b hands out IPs of the second range, too"
    );
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
        world.pod(&dead(&a)).denies(&[]);
        let told = format!("{change:?}");
        world.tell(change);
        assert_eq!(world.reasons(), [], "{told}");
    }
}
