//! Nodes that the agent has not seen yet, or that are gone, and addresses that are no pod's:
//! absence proves nothing.

use super::*;

const ON_C: Addr = Addr::v4([10, 244, 3, 10]);
const TEN_MINUTES: Duration = Duration::from_mins(10);

fn list<'a>(world: &'a mut World, nodes: &[Node]) -> &'a mut World {
    world.tell(Fact::Node(Change::Reset(nodes.to_vec())))
}

fn nodes() -> Vec<Node> {
    vec![node("node-a", 1), node("node-b", 2)]
}

fn with_c() -> Vec<Node> {
    [nodes(), vec![node("node-c", 3)]].concat()
}

/// A pod of the Service ran and is dead.
fn died(world: &mut World, node: &str, ip: Addr) -> Pod {
    let pod = on(node, pod("shop", "gone", "web", &[ip]));
    world
        .pod(&pod)
        .slice(&[(ip, Some(pod.uid))])
        .pod(&dead(&pod));
    pod
}

#[test]
fn a_pod_of_the_service_that_comes_up_on_any_node_may_hold_any_ip_of_the_service_where_ips_are_of_one_pool()
 {
    for node in ["node-a", "node-b", "node-c"] {
        let mut world = World::with(Settings {
            ipam: Ipam::Cluster,
            ..settings()
        });
        died(&mut world, "node-a", X);
        assert_eq!(world.reasons(), [DeadBackend]);
        let next = on(node, pending("shop", "next", "web"));
        world.pod(&next);
        assert_eq!(world.state.take_node_check(world.now), None);
        assert_eq!(world.reasons(), [], "{node}");
        world.pod(&on(node, pending("other", "stranger", "web")));
        world.deleted(&next);
        assert_eq!(world.reasons(), [DeadBackend], "{node}");
    }
}

#[test]
fn the_end_of_a_pod_proves_nothing_while_its_node_may_be_a_virtual_kubelet() {
    let virtual_c = Node {
        virtual_kubelet: true,
        ..node("node-c", 3)
    };
    for (c, reasons) in [(node("node-c", 3), &[DeadBackend][..]), (virtual_c, &[])] {
        let mut world = World::cluster();
        died(&mut world, "node-c", ON_C);
        world.denies_as("no list has shown node-c", &[]);
        list(&mut world, &[nodes(), vec![c]].concat()).denies(reasons);
        list(&mut world, &nodes()).denies_as("it is known what it was", reasons);
        list(&mut world, &with_c()).denies_as("its pods outlive the mark", reasons);
    }
}

#[test]
fn what_was_proven_with_a_death_stays_however_long_the_node_is_gone() {
    let mut world = World::cluster();
    list(&mut world, &with_c());
    died(&mut world, "node-c", ON_C);
    list(&mut world, &nodes()).denies(&[DeadBackend]);
    world.later(TEN_MINUTES * 2).denies(&[DeadBackend]);
}

#[test]
fn the_address_of_a_node_may_be_a_pods_ten_minutes_after_the_node_is_gone() {
    let mut world = World::cluster();
    let c = Node {
        addresses: vec![X],
        ..node("node-c", 3)
    };
    list(&mut world, &[nodes(), vec![c]].concat());
    died(&mut world, "node-a", X);
    world
        .pod(&pod("bank", "ledger", "ledger", &[X]))
        .denies(&[]);
    list(&mut world, &nodes());
    assert_eq!(
        report::view_ip(&world.state, X).spared,
        Some(NotProven::NodeAddress)
    );
    world.later(TEN_MINUTES).denies(&[Reused]);
    assert_eq!(world.state.owners().count(), 1);
}

#[test]
fn an_address_that_a_pod_of_a_nodes_network_shows_is_the_nodes() {
    let mut world = World::cluster();
    died(&mut world, "node-a", X);
    assert_eq!(world.reasons(), [DeadBackend]);
    let proxy = Pod {
        host_network: true,
        ..on("node-c", pod("kube-system", "proxy", "proxy", &[X]))
    };
    world.pod(&proxy).denies(&[]);
    assert_eq!(
        report::view_ip(&world.state, X).spared,
        Some(NotProven::NodeAddress)
    );
    world.deleted(&proxy).denies(&[DeadBackend]);
}

#[test]
fn an_address_of_a_service_is_no_orphan() {
    let (mut world, _) = World::with_an_orphan();
    let dns = Service {
        uid: uid("dns"),
        name: ObjectName::new("other", "dns"),
        vips: vec![X],
        ..web()
    };
    world.tell(Fact::Service(Change::Applied(dns.clone())));
    assert!(!world.is_orphan(X), "at once");
    let annotated = Pod {
        network_ips: [X].into(),
        ..pod("other", "b", "b", &[Y])
    };
    world.pod(&annotated);
    let (owners, _) = world.state.take_owners(usize::MAX);
    assert!(owners.get(&X).is_none(), "and it has no owner");
    world.deleted(&annotated);
    world.tell(Fact::Service(Change::Deleted(dns)));
    assert!(
        !world.is_orphan(X),
        "packets to the address go on for a while"
    );
    world.later(TEN_MINUTES);
    assert!(world.is_orphan(X));
}
