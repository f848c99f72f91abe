//! Which facts prove a denial, and which don't. One story each.

use super::world::{World, X, dead, pod, slice, terminal, uid, web};
use epguard_common::Reason::{DeadBackend, Reused};
use epguard_common::{Reason, UidState};
use epguard_core::facts::{Change, Fact, Pod, Service};

/// Facts that prove this reason, and no other one to deny a Service's endpoint.
fn proven(reason: Reason) -> World {
    let (mut world, a) = World::cluster().with_a();
    match reason {
        Reason::Nothing => {}
        Reason::DeadBackend | Reason::Terminated => world.pod(&dead(&a)),
        Reason::Reused => {
            world.pod(&dead(&a));
            world.pod(&pod("other", "b", "b", &[X]));
        }
        Reason::RetiredBackend => world.pod(&terminal(&a)),
    }
    world
}

#[test]
fn every_reason_can_be_proven() {
    for reason in Reason::TO_DENY {
        let world = proven(reason);
        if reason == Reason::Terminated {
            assert!(world.state.tables().terminated.contains_key(&X));
        } else {
            assert_eq!(world.reasons(), [reason]);
        }
    }
}

#[test]
fn a_dead_pod_that_is_still_listed_is_denied() {
    let (mut world, a) = World::cluster().with_a();
    assert_eq!(world.reasons(), []);
    world.pod(&dead(&a));
    assert_eq!(world.denials(), [(X, DeadBackend, UidState::Dead, a.uid, None)]);
}

#[test]
fn an_ip_reused_by_another_namespace_is_denied_for_the_old_service_only() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    let b = pod("other", "b", "b", &[X]);
    world.pod(&b);
    assert_eq!(world.denials(), [(X, Reused, UidState::Dead, a.uid, Some(b.uid))]);
}

#[test]
fn the_denial_outlives_the_slice_because_proxies_and_conntrack_do() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.slice(&[]);
    assert_eq!(world.reasons(), [DeadBackend]);
    world.deleted(&dead(&a));
    assert_eq!(world.reasons(), [DeadBackend]);
    world.now += epguard_core::state::MEMORY * 2;
    let now = world.now;
    world.state.tick(now);
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_late_delete_of_the_old_pod_leaves_the_new_owner_untouched() {
    let (mut world, a) = World::cluster().with_a();
    let b = pod("shop", "b", "web", &[X]);
    world.pod(&dead(&a));
    world.slice(&[(X, Some(b.uid))]);
    world.pod(&b);
    world.deleted(&dead(&a));
    assert_eq!(world.reasons(), []);
    let (owners, _) = world.state.take_owners(usize::MAX);
    assert_eq!(owners.get(&X).map(|owner| owner.uid), Some(b.uid));
}

#[test]
fn a_pod_of_the_same_service_that_claims_the_ip_is_never_denied() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.pod(&pod("shop", "b", "web", &[X]));
    assert_eq!(world.reasons(), []);
}

#[test]
fn nothing_is_denied_before_every_kind_was_listed() {
    let settings = epguard_core::state::Settings {
        node: "node-a".into(),
        ipam: epguard_core::state::Ipam::Auto,
        ranges: epguard_core::state::Ranges::default(),
    };
    let mut world =
        World { state: epguard_core::state::State::new(settings), now: std::time::Duration::ZERO };
    let a = pod("shop", "a", "web", &[X]);
    world.tell(Fact::Service(Change::Reset(vec![web()])));
    world.tell(Fact::Slice(Change::Reset(vec![slice("web", &[(X, Some(a.uid))])])));
    world.tell(Fact::Pod(Change::Reset(vec![dead(&a)])));
    assert_eq!(world.reasons(), []);
    world.tell(Fact::Node(Change::Reset(vec![super::world::node("node-a", 1)])));
    assert_eq!(world.reasons(), []);
    world.tell(Fact::Namespace(Change::Reset(vec![])));
    assert_eq!(world.reasons(), [DeadBackend]);
}

#[test]
fn two_live_claimants_are_a_conflict_and_pass() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.pod(&pod("other", "b", "b", &[X]));
    world.pod(&pod("other", "c", "c", &[X]));
    assert_eq!(world.reasons(), []);
    assert_eq!(world.state.live_claimants(X).count(), 2);
    let (owners, _) = world.state.take_owners(usize::MAX);
    assert_eq!(owners.get(&X).map(|owner| owner.flags), Some(epguard_common::Owner::CONFLICT));
}

#[test]
fn an_entry_without_a_uid_or_with_an_unknown_one_passes() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.slice(&[(X, Some(a.uid)), (X, None)]);
    assert_eq!(world.reasons(), []);
    world.slice(&[(X, Some(a.uid)), (X, Some(uid("stranger")))]);
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_service_without_a_selector_is_denied_only_while_it_lists_the_pod() {
    let (mut world, a) = World::cluster().with_a();
    world.tell(Fact::Service(Change::Applied(Service { selector: None, ..web() })));
    world.pod(&dead(&a));
    assert_eq!(world.reasons(), [DeadBackend]);
    world.slice(&[]);
    assert_eq!(world.reasons(), []);
}

#[test]
fn node_addresses_and_host_network_pods_are_never_judged() {
    let mut world = World::cluster();
    let a = Pod { host_network: true, ..pod("shop", "a", "web", &[super::world::NODE]) };
    world.pod(&a);
    world.slice(&[(super::world::NODE, Some(a.uid))]);
    world.pod(&dead(&a));
    assert_eq!(world.reasons(), []);
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.tell(Fact::LocalAddresses(vec![X]));
    assert_eq!(world.reasons(), [], "an address of this node's own, a gateway for one");
}

#[test]
fn pods_and_services_that_opted_out_are_never_denied() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.tell(Fact::Service(Change::Applied(Service { bound: epguard_common::Mode::Off, ..web() })));
    assert_eq!(world.reasons(), []);
    world.tell(Fact::Service(Change::Applied(web())));
    world.pod(&Pod { bound: epguard_common::Mode::Off, ..dead(&a) });
    assert_eq!(world.reasons(), []);
}

#[test]
fn an_ip_that_the_service_lists_alive_on_another_port_passes_on_all() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    let mut other = slice("web-metrics", &[(X, Some(uid("stranger")))]);
    other.ports[0].port = 9090;
    world.tell(Fact::Slice(Change::Applied(other)));
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_new_owner_that_opted_out_is_never_denied() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.pod(&Pod { bound: epguard_common::Mode::Off, ..pod("other", "b", "b", &[X]) });
    assert_eq!(world.reasons(), []);
}

#[test]
fn the_status_of_a_virtual_kubelet_proves_nothing() {
    let mut world = World::cluster();
    let virtual_node = epguard_core::facts::Node { virtual_kubelet: true, ..super::world::node("node-a", 1) };
    world.tell(Fact::Node(Change::Applied(virtual_node)));
    let a = pod("shop", "a", "web", &[X]);
    world.pod(&dead(&a));
    world.slice(&[(X, Some(a.uid))]);
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_host_network_pod_is_never_judged_even_at_an_address_that_no_node_shows() {
    let mut world = World::cluster();
    let a = Pod { host_network: true, ..pod("shop", "a", "web", &[X]) };
    world.pod(&a);
    world.slice(&[(X, Some(a.uid))]);
    world.pod(&dead(&a));
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_dead_pod_is_kept_as_long_as_a_slice_lists_it() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.now += epguard_core::state::MEMORY * 2;
    let now = world.now;
    world.state.tick(now);
    assert_eq!(world.reasons(), [DeadBackend]);
}
