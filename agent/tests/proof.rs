//! Which facts prove a denial, and which don't. One story each.

mod world;

use epguard::facts::{Change, Fact, Pod, PodSource, Sandbox, Service};
use epguard_common::Reason::{DeadBackend, RetiredBackend, Reused};
use epguard_common::{Addr, UidState};
use world::{World, X, Y, dead, pending, pod, slice, terminal, uid, web};

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
    world.now += epguard::state::MEMORY * 2;
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
    let (owners, _) = world.state.take_owners();
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
fn a_pod_of_the_service_that_shows_no_ip_yet_may_hold_any_of_its_nodes() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&pending("shop", "b", "web"));
    world.pod(&dead(&a));
    assert_eq!(world.reasons(), []);
    world.pod(&pod("shop", "b", "web", &[Y]));
    assert_eq!(
        world.reasons(),
        [DeadBackend],
        "once it shows another IP it doesn't hold this one"
    );
}

#[test]
fn a_pending_pod_of_another_node_or_service_doesnt_matter() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&Pod {
        node: Some("node-b".into()),
        ..pending("shop", "b", "web")
    });
    world.pod(&pending("other", "c", "c"));
    world.pod(&dead(&a));
    assert_eq!(world.reasons(), [DeadBackend]);
}

#[test]
fn where_ips_leave_their_nodes_range_a_pending_pod_anywhere_matters() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&pod("other", "stray", "stray", &[Addr::v4([10, 244, 2, 99])]));
    world.pod(&Pod {
        node: Some("node-b".into()),
        ..pending("shop", "b", "web")
    });
    world.pod(&dead(&a));
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_pod_whose_sandbox_restarts_may_hold_another_ip_than_it_shows() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&Pod {
        sandbox: Sandbox::Unsettled,
        ..pod("shop", "b", "web", &[Y])
    });
    world.pod(&dead(&a));
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_retired_pod_gets_no_new_flow() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a));
    assert_eq!(
        world.denials(),
        [(X, RetiredBackend, UidState::Retired, a.uid, None)]
    );
    world.pod(&a);
    assert_eq!(world.reasons(), [], "seen alive again");
}

#[test]
fn a_dead_pod_stays_dead_whatever_is_shown_later() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.pod(&a);
    assert_eq!(world.reasons(), [DeadBackend]);
}

#[test]
fn a_force_deleted_pod_is_only_retired() {
    let (mut world, a) = World::cluster().with_a();
    world.deleted(&a);
    assert_eq!(
        world.denials(),
        [(X, RetiredBackend, UidState::Retired, a.uid, None)]
    );
}

#[test]
fn deleted_without_a_deletion_timestamp_proves_nothing() {
    let (mut world, a) = World::cluster().with_a();
    world.tell(Fact::Pod(PodSource::All, Change::Deleted(a)));
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_mirror_pod_is_never_judged() {
    let mut world = World::cluster();
    let a = Pod {
        mirror: true,
        ..pod("shop", "a", "web", &[X])
    };
    world.pod(&a);
    world.slice(&[(X, Some(a.uid))]);
    world.pod(&terminal(&a));
    assert_eq!(world.reasons(), []);
    world.deleted(&a);
    assert_eq!(world.reasons(), []);
}

#[test]
fn for_a_retired_pod_only_a_claim_that_came_later_counts() {
    let mut world = World::cluster();
    let (a, b) = (pod("shop", "a", "web", &[X]), pod("other", "b", "b", &[X]));
    world.pod(&b);
    world.pod(&a);
    world.slice(&[(X, Some(a.uid))]);
    world.pod(&terminal(&a));
    assert_eq!(world.reasons(), [], "b was there first");

    let (mut world, a) = World::cluster().with_a();
    world.pod(&b);
    world.pod(&terminal(&a));
    assert_eq!(
        world.denials(),
        [(X, Reused, UidState::Retired, a.uid, Some(b.uid))]
    );
    world.tell(Fact::Pod(PodSource::All, Change::Reset(vec![terminal(&a), b])));
    assert_eq!(world.reasons(), [], "a list doesn't say who came first");
}

#[test]
fn what_vanished_in_a_gap_proves_nothing() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a));
    world.tell(Fact::Pod(PodSource::All, Change::Reset(vec![])));
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_death_that_was_proven_before_the_gap_still_is() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.tell(Fact::Pod(PodSource::All, Change::Reset(vec![])));
    assert_eq!(world.reasons(), [DeadBackend]);
}

#[test]
fn nothing_is_denied_before_every_kind_was_listed() {
    let settings = epguard::state::Settings {
        scope: epguard::state::Scope::Cluster,
        node: "node-a".into(),
        ipam: epguard::state::Ipam::Auto,
    };
    let mut world = World {
        state: epguard::state::State::new(settings),
        now: std::time::Duration::ZERO,
    };
    let a = pod("shop", "a", "web", &[X]);
    world.tell(Fact::Service(Change::Reset(vec![web()])));
    world.tell(Fact::Slice(Change::Reset(vec![slice(
        "web",
        &[(X, Some(a.uid))],
    )])));
    world.tell(Fact::Pod(PodSource::All, Change::Reset(vec![dead(&a)])));
    assert_eq!(world.reasons(), []);
    world.tell(Fact::Node(Change::Reset(vec![world::node("node-a", 1)])));
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
    let (owners, _) = world.state.take_owners();
    assert_eq!(
        owners.get(&X).map(|owner| owner.flags),
        Some(epguard_common::Owner::CONFLICT)
    );
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
fn a_service_without_a_selector_is_believed_as_long_as_it_lists_the_pod() {
    let (mut world, a) = World::cluster().with_a();
    world.tell(Fact::Service(Change::Applied(Service {
        selector: None,
        ..web()
    })));
    world.pod(&dead(&a));
    assert_eq!(world.reasons(), [DeadBackend]);
    world.slice(&[]);
    assert_eq!(world.reasons(), []);
}

#[test]
fn node_addresses_and_host_network_pods_are_never_judged() {
    let mut world = World::cluster();
    let a = Pod {
        host_network: true,
        ..pod("shop", "a", "web", &[world::NODE])
    };
    world.pod(&a);
    world.slice(&[(world::NODE, Some(a.uid))]);
    world.pod(&dead(&a));
    assert_eq!(world.reasons(), []);
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.tell(Fact::LocalAddresses(vec![X]));
    assert_eq!(
        world.reasons(),
        [],
        "an address of this node's own, a gateway for one"
    );
}

#[test]
fn a_pod_that_moved_to_another_ip_denies_neither() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&Pod {
        ips: vec![Y],
        ..a.clone()
    });
    world.slice(&[(Y, Some(a.uid))]);
    assert_eq!(world.reasons(), []);
}

#[test]
fn whoever_opted_out_is_left_alone() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.tell(Fact::Service(Change::Applied(Service {
        opted_out: true,
        ..web()
    })));
    assert_eq!(world.reasons(), []);
    world.tell(Fact::Service(Change::Applied(web())));
    world.pod(&Pod {
        opted_out: true,
        ..dead(&a)
    });
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
fn a_new_owner_that_opted_out_is_left_alone() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.pod(&Pod {
        opted_out: true,
        ..pod("other", "b", "b", &[X])
    });
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_retired_pod_of_the_service_that_claims_the_ip_keeps_its_flows() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.pod(&terminal(&pod("shop", "c", "web", &[X])));
    assert_eq!(
        world.denials(),
        [(X, RetiredBackend, UidState::Retired, a.uid, None)]
    );
}

#[test]
fn a_virtual_kubelets_word_proves_nothing() {
    let mut world = World::cluster();
    let virtual_node = epguard::facts::Node {
        virtual_kubelet: true,
        ..world::node("node-a", 1)
    };
    world.tell(Fact::Node(Change::Applied(virtual_node)));
    let a = pod("shop", "a", "web", &[X]);
    world.pod(&dead(&a));
    world.slice(&[(X, Some(a.uid))]);
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_host_network_pod_is_never_judged_even_at_an_address_that_no_node_shows() {
    let mut world = World::cluster();
    let a = Pod {
        host_network: true,
        host_ips: vec![],
        ..pod("shop", "a", "web", &[X])
    };
    world.pod(&a);
    world.slice(&[(X, Some(a.uid))]);
    world.pod(&dead(&a));
    assert_eq!(world.reasons(), []);
}

#[test]
fn what_is_listed_is_remembered_as_long_as_it_is_listed() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&dead(&a));
    world.now += epguard::state::MEMORY * 2;
    let now = world.now;
    world.state.tick(now);
    assert_eq!(world.reasons(), [DeadBackend]);
}

#[test]
fn the_owners_of_an_ip_are_counted_across_its_idle_time() {
    let (mut world, a) = World::cluster().with_a();
    let generation = |world: &mut World| world.state.take_owners().0.get(&X).map(|owner| owner.generation);
    assert_eq!(generation(&mut world), Some(1));
    world.pod(&dead(&a));
    assert_eq!(generation(&mut world), None);
    world.pod(&pod("other", "b", "b", &[X]));
    assert_eq!(generation(&mut world), Some(2));
}
