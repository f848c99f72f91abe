//! Large clusters, where the Nodes of others are not watched but listed from time to time.

use super::world::{World, X, dead, node, pending, pod};
use epguard_common::Addr;
use epguard_common::Reason::DeadBackend;
use epguard_core::facts::{Change, Cidr, Fact, Node, Pod};
use epguard_core::state::NotProven;
use std::time::Duration;

const ON_B: Addr = Addr::v4([10, 244, 2, 10]);
const ON_C: Addr = Addr::v4([10, 244, 3, 10]);
const OUTSIDE: Addr = Addr::v4([10, 244, 9, 9]);

fn on(node: &str, pod: Pod) -> Pod {
    Pod {
        node: Some(node.into()),
        ..pod
    }
}

fn list(world: &mut World, nodes: &[Node]) {
    world.tell(Fact::Node(Change::Reset(nodes.to_vec())));
}

fn nodes() -> Vec<Node> {
    vec![node("node-a", 1), node("node-b", 2)]
}

fn with_c() -> Vec<Node> {
    [nodes(), vec![node("node-c", 3)]].concat()
}

/// Only node-a, on which the agent runs, is watched.
fn large() -> World {
    let mut world = World::cluster();
    world.state.watch_nodes(1);
    list(&mut world, &nodes());
    world
}

/// A pod of the Service ran and is dead.
fn died(world: &mut World, node: &str, ip: Addr) -> Pod {
    let pod = on(node, pod("shop", "gone", "web", &[ip]));
    world.pod(&pod);
    world.slice(&[(ip, Some(pod.uid))]);
    world.pod(&dead(&pod));
    pod
}

#[test]
fn a_pod_that_comes_up_on_a_node_newer_than_the_list_may_hold_any_ip() {
    let mut world = large();
    died(&mut world, "node-a", X);
    world.pod(&on("node-b", pending("shop", "on-b", "web")));
    assert_eq!(world.reasons(), [DeadBackend], "node-b has another range");
    let on_c = on("node-c", pending("shop", "on-c", "web"));
    world.pod(&on_c);
    assert_eq!(world.reasons(), []);
    list(&mut world, &with_c());
    assert_eq!(world.reasons(), [DeadBackend]);
    list(&mut world, &nodes());
    assert_eq!(world.reasons(), [], "node-c may be made again, with any range");
    world.deleted(&on_c);
    assert_eq!(world.reasons(), [DeadBackend]);
}

#[test]
fn where_all_nodes_are_watched_a_pod_on_an_unknown_node_holds_no_ip_of_another_range() {
    let mut world = World::cluster();
    died(&mut world, "node-a", X);
    world.pod(&on("node-c", pending("shop", "on-c", "web")));
    assert_eq!(world.reasons(), [DeadBackend]);
}

#[test]
fn the_end_of_a_pod_proves_nothing_while_its_node_may_be_a_virtual_kubelet() {
    let mut world = large();
    died(&mut world, "node-c", ON_C);
    assert_eq!(world.reasons(), []);
    let c = Node {
        virtual_kubelet: true,
        ..node("node-c", 3)
    };
    list(&mut world, &[nodes(), vec![c]].concat());
    assert_eq!(world.reasons(), []);
    let mut world = large();
    died(&mut world, "node-c", ON_C);
    list(&mut world, &with_c());
    assert_eq!(world.reasons(), [DeadBackend]);
    list(&mut world, &nodes());
    assert_eq!(world.reasons(), [DeadBackend], "a list has shown what it was");
}

/// A proof rested on the range of node-b, until pods of two namespaces showed an IP outside of it, long after the list.
fn disproved_late() -> World {
    let mut world = large();
    died(&mut world, "node-b", ON_B);
    world.pod(&on("node-a", pending("shop", "on-a", "web")));
    assert_eq!(world.reasons(), [DeadBackend]);
    world.now += Duration::from_mins(5);
    for namespace in ["other", "shop"] {
        let moved = pod(namespace, &format!("moved-{namespace}"), "x", &[OUTSIDE]);
        world.pod(&on("node-b", moved));
        assert_eq!(world.reasons(), []);
    }
    world
}

#[test]
fn a_pod_outside_of_the_listed_range_of_its_node_ends_proofs_that_rest_on_ranges_until_the_next_list() {
    let mut world = disproved_late();
    let b = Node {
        pod_cidrs: ["10.244.2.0/24", "10.244.9.0/24"]
            .into_iter()
            .filter_map(Cidr::parse)
            .collect(),
        ..node("node-b", 2)
    };
    list(&mut world, &[node("node-a", 1), b]);
    assert_eq!(
        world.reasons(),
        [DeadBackend],
        "the list shows that it was another range"
    );
}

#[test]
fn a_list_with_the_range_that_pods_have_disproved_shows_that_no_range_counts() {
    let mut world = disproved_late();
    list(&mut world, &nodes());
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_pod_outside_of_its_nodes_range_shows_how_the_cluster_hands_out_ips_if_the_list_is_new() {
    let mut world = large();
    died(&mut world, "node-b", ON_B);
    world.pod(&on("node-a", pending("shop", "on-a", "web")));
    let stray = on("node-b", pod("other", "stray", "x", &[OUTSIDE]));
    world.pod(&stray);
    assert_eq!(world.reasons(), []);
    world.now += Duration::from_mins(5);
    list(&mut world, &nodes());
    assert_eq!(world.reasons(), []);
}

#[test]
fn the_address_of_a_new_node_is_never_judged_once_a_pod_of_its_network_shows_it() {
    let mut world = large();
    died(&mut world, "node-b", ON_B);
    assert_eq!(world.reasons(), [DeadBackend]);
    let proxy = Pod {
        host_network: true,
        ..on("node-c", pod("kube-system", "proxy", "proxy", &[ON_B]))
    };
    world.pod(&proxy);
    assert_eq!(world.reasons(), []);
    let view = world.state.view(ON_B);
    assert_eq!(view.spared, Some(NotProven::NodeAddress));
}
