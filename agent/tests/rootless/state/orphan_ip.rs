//! Evidence for orphan IPs of this node, and cases without it. One story each.

use super::world::{World, X, Y, dead, node, pending, pod, settings, terminal};
use epguard_common::{Addr, Uid};
use epguard_core::facts::{Change, Fact, Pod, Presence, Protocol};
use epguard_core::state::{Endpoint, MEMORY};

fn orphan_ip(world: &World) -> Vec<(Addr, Uid)> {
    let terminated = &world.state.tables().terminated;
    let orphan_ip = terminated.iter().filter(|(_, orphan_ip)| orphan_ip.lifted.is_none());
    orphan_ip.map(|(ip, orphan_ip)| (*ip, orphan_ip.dead)).collect()
}

/// Entries that only keep the kernel from forgetting who spoke.
fn lifted(world: &World) -> Vec<(Addr, Uid)> {
    let terminated = &world.state.tables().terminated;
    let lifted = terminated.iter().filter(|(_, orphan_ip)| orphan_ip.lifted.is_some());
    lifted.map(|(ip, orphan_ip)| (*ip, orphan_ip.dead)).collect()
}

fn speaks(world: &mut World, ip: Addr) {
    world.tell(Fact::Presence(Presence::Spoke(ip, world.now)));
}

/// A ran on X, and is dead.
fn with_dead_a() -> (World, Pod) {
    let mut world = World::cluster();
    let a = pod("shop", "a", "web", &[X]);
    world.pod(&a);
    world.pod(&dead(&a));
    (world, a)
}

#[test]
fn the_ip_of_a_dead_pod_of_this_node_is_an_orphan_with_or_without_a_slice() {
    let (world, a) = with_dead_a();
    assert_eq!(orphan_ip(&world), [(X, a.uid)]);
    let (mut world, a) = World::cluster().with_a();
    assert_eq!(orphan_ip(&world), []);
    world.pod(&dead(&a));
    assert_eq!(orphan_ip(&world), [(X, a.uid)]);
}

#[test]
fn an_ip_stays_an_orphan_for_a_while_after_its_pod_object_and_while_clients_send() {
    let (mut world, a) = with_dead_a();
    world.deleted(&dead(&a));
    world.now += MEMORY / 10 * 9;
    world.state.tick(world.now);
    assert_eq!(orphan_ip(&world), [(X, a.uid)]);
    let (port, protocol) = (5432, Protocol::Tcp);
    let socket = Endpoint { ip: X, port, protocol };
    world.state.hit(world.now, epguard_common::ServiceNumber::NONE, &socket);
    world.now += MEMORY / 2;
    world.state.tick(world.now);
    assert_eq!(orphan_ip(&world), [(X, a.uid)]);
    world.now += MEMORY;
    world.state.tick(world.now);
    assert_eq!(orphan_ip(&world), []);
    world.tell(Fact::Pod(Change::Reset(vec![])));
    assert_eq!(orphan_ip(&world), [], "what was forgotten does not come back");
}

#[test]
fn a_pod_that_may_still_run_leaves_no_orphan_ip() {
    let mut world = World::cluster();
    let a = pod("shop", "a", "web", &[X]);
    world.pod(&a);
    world.pod(&terminal(&a));
    assert_eq!(orphan_ip(&world), []);
    world.deleted(&a);
    assert_eq!(orphan_ip(&world), [], "force-deleted: its containers may run on");
}

#[test]
fn a_new_owner_or_a_possible_holder_ends_an_orphan_ip() {
    let (mut world, a) = with_dead_a();
    world.pod(&pod("other", "b", "b", &[X]));
    assert_eq!(orphan_ip(&world), []);
    let (mut world, _) = with_dead_a();
    let coming = pending("other", "b", "b");
    world.pod(&coming);
    assert_eq!(orphan_ip(&world), []);
    world.pod(&pod("other", "b", "b", &[Y]));
    assert_eq!(orphan_ip(&world), [(X, a.uid)], "it came up elsewhere");
    let elsewhere = Pod { node: Some("node-b".into()), ..pending("other", "c", "c") };
    world.pod(&elsewhere);
    assert_eq!(orphan_ip(&world), [(X, a.uid)], "another node never hands X out");
}

#[test]
fn a_retired_pod_that_had_the_ip_after_the_dead_pod_keeps_it() {
    let (mut world, _) = with_dead_a();
    let b = pod("other", "b", "b", &[X]);
    world.pod(&b);
    world.deleted(&b);
    assert_eq!(orphan_ip(&world), []);
    world.now += MEMORY * 2;
    world.state.tick(world.now);
    assert_eq!(orphan_ip(&world), [], "nor once it is forgotten");
}

#[test]
fn a_slice_entry_without_a_proven_death_ends_an_orphan_ip() {
    let (mut world, _) = with_dead_a();
    world.slice(&[(X, None)]);
    assert_eq!(orphan_ip(&world), []);
}

#[test]
fn a_route_or_neighbour_of_the_node_suspends_an_orphan_ip() {
    let (mut world, a) = with_dead_a();
    world.tell(Fact::Presence(Presence::Held(vec![Y, X])));
    assert_eq!(orphan_ip(&world), []);
    world.tell(Fact::Presence(Presence::Held(vec![Y])));
    assert_eq!(orphan_ip(&world), [(X, a.uid)]);
}

#[test]
fn no_ip_is_an_orphan_while_the_nodes_holders_are_unknown() {
    let mut world = World::blind(settings());
    let a = pod("shop", "a", "web", &[X]);
    world.pod(&a);
    world.pod(&dead(&a));
    assert_eq!(orphan_ip(&world), [], "routes and neighbours were never listed");
    world.tell(Fact::Presence(Presence::Held(vec![])));
    assert_eq!(orphan_ip(&world), [(X, a.uid)]);
    world.tell(Fact::Presence(Presence::Unknown));
    assert_eq!(orphan_ip(&world), [], "they cannot be listed any more");
}

#[test]
fn a_node_reads_its_holders_only_while_it_has_a_dead_pod() {
    let unsynced = epguard_core::state::State::new(settings());
    assert!(unsynced.asks_for_presence(), "an earlier process may have known of one");
    let mut world = World::cluster();
    let a = pod("shop", "a", "web", &[X]);
    world.pod(&a);
    assert!(!world.state.asks_for_presence());
    world.pod(&dead(&a));
    assert!(world.state.asks_for_presence());
    world.deleted(&dead(&a));
    world.now += MEMORY * 2;
    world.state.tick(world.now);
    assert!(!world.state.asks_for_presence());
}

#[test]
fn a_packet_from_an_orphan_ip_lifts_its_denial_until_another_pod_dies_there() {
    let (mut world, a) = with_dead_a();
    speaks(&mut world, X);
    assert_eq!((orphan_ip(&world), lifted(&world)), (vec![], vec![(X, a.uid)]));
    world.pod(&dead(&a));
    assert_eq!(orphan_ip(&world), []);
    let b = pod("other", "b", "b", &[X]);
    world.pod(&b);
    world.pod(&dead(&b));
    assert_eq!(orphan_ip(&world), [(X, b.uid)]);
    world.pod(&dead(&a));
    world.list(&[dead(&a), dead(&b)]);
    assert!(!orphan_ip(&world).contains(&(X, a.uid)), "A was dead when somebody spoke");
}

#[test]
fn a_late_report_of_a_packet_lifts_only_earlier_denials() {
    let (mut world, _) = with_dead_a();
    let at = world.now;
    let b = pod("other", "b", "b", &[X]);
    world.pod(&b);
    world.pod(&dead(&b));
    world.tell(Fact::Presence(Presence::Spoke(X, at)));
    assert_eq!(orphan_ip(&world), [(X, b.uid)]);
}

#[test]
fn the_entry_of_a_lifted_ip_stays_except_while_a_live_pod_shows_the_ip() {
    let (mut world, a) = with_dead_a();
    speaks(&mut world, X);
    world.tell(Fact::Presence(Presence::Held(vec![X])));
    world.pod(&pending("other", "b", "b"));
    assert_eq!((orphan_ip(&world), lifted(&world)), (vec![], vec![(X, a.uid)]));
    let b = pod("other", "b", "b", &[X]);
    world.pod(&b);
    assert_eq!((orphan_ip(&world), lifted(&world)), (vec![], vec![]));
    world.deleted(&b);
    assert_eq!((orphan_ip(&world), lifted(&world)), (vec![], vec![(X, a.uid)]));
}

#[test]
fn a_death_that_only_a_list_shows_may_be_older_than_the_packet() {
    let (mut world, _) = with_dead_a();
    speaks(&mut world, X);
    let b = pod("other", "b", "b", &[X]);
    for _ in 0..2 {
        world.list(&[dead(&b)]);
    }
    assert_eq!((orphan_ip(&world), lifted(&world)), (vec![], vec![(X, b.uid)]));
}

#[test]
fn lifts_survive_an_api_that_goes_back_in_time() {
    let (mut world, a) = with_dead_a();
    speaks(&mut world, X);
    world.state.start_over(world.now);
    world.now += MEMORY * 2;
    world.state.tick(world.now);
    world.list_all_but_pods();
    for _ in 0..2 {
        world.list(&[dead(&a)]);
    }
    assert_eq!((orphan_ip(&world), lifted(&world)), (vec![], vec![(X, a.uid)]));
}

#[test]
fn ips_of_other_nodes_or_outside_of_all_ranges_are_never_orphans() {
    let mut world = World::cluster();
    let far = Pod { node: Some("node-b".into()), ..pod("shop", "far", "web", &[Addr::v4([10, 244, 2, 10])]) };
    let strange = pod("shop", "strange", "web", &[Addr::v4([172, 16, 0, 9])]);
    for gone in [far, strange] {
        world.pod(&gone);
        world.pod(&dead(&gone));
        assert_eq!(orphan_ip(&world), []);
    }
}

#[test]
fn without_ranges_of_its_own_a_node_has_no_orphan_ips() {
    let (mut world, _) = with_dead_a();
    let nodes = [1, 2].map(|number| epguard_core::facts::Node {
        pod_cidrs: vec![],
        ..node(if number == 1 { "node-a" } else { "node-b" }, number)
    });
    world.tell(Fact::Node(Change::Reset(nodes.into())));
    assert_eq!(orphan_ip(&world), []);
}

#[test]
fn pods_that_opted_out_host_network_pods_and_mirror_pods_leave_no_orphan_ip() {
    let changes: [fn(Pod) -> Pod; 2] =
        [|pod| Pod { bound: epguard_common::Mode::Off, ..pod }, |pod| Pod { host_network: true, ..pod }];
    for change in changes {
        let mut world = World::cluster();
        let a = change(pod("shop", "a", "web", &[X]));
        world.pod(&a);
        world.pod(&dead(&a));
        assert_eq!(orphan_ip(&world), []);
    }
}

#[test]
fn no_ip_is_an_orphan_before_the_sync() {
    let mut world = World::cluster();
    let a = pod("shop", "a", "web", &[X]);
    world.state = epguard_core::state::State::new(super::world::settings());
    world.tell(Fact::Node(Change::Reset(vec![node("node-a", 1)])));
    world.tell(Fact::Pod(Change::Reset(vec![dead(&a)])));
    world.tell(Fact::Presence(Presence::Held(vec![])));
    assert_eq!(orphan_ip(&world), []);
}
