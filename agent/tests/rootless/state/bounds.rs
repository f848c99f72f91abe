//! Who may ask to be spared, and what comes of it: annotations, ranges, and IPs that outlive their pods.

use super::world::{World, X, Y, b, dead, namespace, pod, settings, terminal, web};
use epguard_common::Mode::{self, Enforce, Observe, Off};
use epguard_common::{Addr, Reason};
use epguard_core::facts::{Change, Cidr, Fact, Pod, Service};
use epguard_core::state::{Ranges, Settings};

/// The bound of the only denial.
fn bound(world: &World) -> Option<Mode> {
    let bounds: Vec<Mode> = world.state.denials().map(|(_, _, proven)| proven.mode).collect();
    let written: Vec<Mode> = world.state.tables().denied.values().map(|denial| denial.mode).collect();
    assert_eq!(bounds, written, "what is proven is what is written");
    assert!(bounds.len() <= 1, "{bounds:?}");
    bounds.first().copied()
}

/// B of another namespace has the IP of A, which is dead; each of the five is bounded.
fn reused(shop: Mode, service: Mode, meant: Mode, other: Mode, hit: Mode) -> Option<Mode> {
    let (mut world, a) = World::cluster().with_a();
    world.tell(Fact::Namespace(Change::Applied(namespace("shop", shop))));
    world.tell(Fact::Namespace(Change::Applied(namespace("other", other))));
    world.tell(Fact::Service(Change::Applied(Service { bound: service, ..web() })));
    world.pod(&Pod { bound: meant, ..dead(&a) });
    world.pod(&Pod { bound: hit, ..pod("other", "b", "b", &[X]) });
    bound(&world)
}

#[test]
fn the_lowest_mode_of_namespaces_service_and_pods_applies() {
    assert_eq!(reused(Enforce, Enforce, Enforce, Enforce, Enforce), Some(Enforce));
    let who = |number: usize, mode: Mode| {
        let mut all = [Enforce; 5];
        all[number] = mode;
        let [shop, service, meant, other, hit] = all;
        reused(shop, service, meant, other, hit)
    };
    for number in 0..5 {
        assert_eq!(who(number, Observe), Some(Observe), "{number}");
        assert_eq!(who(number, Off), None, "{number}");
    }
    assert_eq!(reused(Observe, Enforce, Enforce, Enforce, Off), None);
    assert_eq!(reused(Observe, Enforce, Off, Enforce, Observe), None);
}

#[test]
fn an_annotation_counts_as_soon_as_it_is_seen_and_no_longer_than_it_stays() {
    let (mut world, _) = World::where_a_died();
    assert_eq!(bound(&world), Some(Enforce));
    for (mode, expected) in [(Observe, Some(Observe)), (Off, None), (Enforce, Some(Enforce))] {
        world.tell(Fact::Namespace(Change::Applied(namespace("shop", mode))));
        assert_eq!(bound(&world), expected);
    }
}

#[test]
fn nothing_is_denied_for_an_unknown_or_deleted_namespace() {
    let (mut world, _) = World::where_a_died();
    world.pod(&pod("new", "b", "b", &[X]));
    assert_eq!(bound(&world), Some(Observe));
    world.tell(Fact::Namespace(Change::Applied(namespace("new", Enforce))));
    assert_eq!(bound(&world), Some(Enforce));
    world.tell(Fact::Namespace(Change::Deleted(namespace("new", Enforce))));
    assert_eq!(bound(&world), Some(Observe));
    let listed = vec![namespace("new", Enforce)];
    world.tell(Fact::Namespace(Change::Reset(listed)));
    assert_eq!(bound(&world), Some(Observe), "shop is not in the list");
}

#[test]
fn the_mode_of_an_orphan_ip_follows_its_dead_pod_and_never_rises() {
    let (mut world, a) = World::where_a_died();
    let listed = |world: &World| {
        world.state.tables().terminated.get(&X).map(|orphan_ip| (orphan_ip.dead, orphan_ip.mode))
    };
    assert_eq!(listed(&world), Some((a.uid, Enforce)));
    world.tell(Fact::Namespace(Change::Applied(namespace("shop", Observe))));
    assert_eq!(listed(&world), Some((a.uid, Observe)));
    world.tell(Fact::Namespace(Change::Applied(namespace("shop", Enforce))));
    assert_eq!(listed(&world), Some((a.uid, Observe)), "a new entry would forget who has just spoken");
    world.pod(&Pod { bound: Off, ..dead(&a) });
    assert_eq!(listed(&world), None);
}

#[test]
fn endpoints_outside_of_the_operators_ranges_are_left_alone() {
    let denied = |protect: &[&str], exclude: &[&str]| {
        let parse = |texts: &[&str]| texts.iter().map(|text| Cidr::parse(text).unwrap()).collect();
        let ranges = Ranges { protect: parse(protect), exclude: parse(exclude) };
        let settings = Settings { ranges, ..settings() };
        let (mut world, a) = World::with(settings).with_a();
        world.pod(&dead(&a));
        let terminated = !world.state.tables().terminated.is_empty();
        assert_eq!(terminated, !world.reasons().is_empty());
        terminated
    };
    assert!(denied(&[], &[]));
    assert!(denied(&["10.244.0.0/16"], &["10.244.1.128/25"]));
    assert!(!denied(&[], &["10.244.1.10/32"]));
    assert!(!denied(&["10.244.2.0/24", "fd00::/8"], &[]));
}

#[test]
fn the_death_of_a_pod_with_a_static_ip_proves_nothing() {
    let (mut world, a) = World::cluster().with_a();
    let fixed = Pod { static_ip: true, ..dead(&a) };
    world.pod(&fixed);
    assert_eq!((world.reasons(), world.state.tables().terminated.len()), (vec![], 0));
    world.slice(&[]);
    assert_eq!(world.reasons(), [], "nor once it is listed no more");
    let (mut world, _) = World::where_a_died();
    world.pod(&Pod { static_ip: true, ..b() });
    assert_eq!(world.reasons(), [Reason::Reused], "a live one is denied for reuse alone");
}

/// A pod that shows the IP in Multus' annotation only.
fn attached(namespace: &str, name: &str, app: &str, ip: Addr) -> Pod {
    Pod { network_ips: [Y, ip].into(), ..pod(namespace, name, app, &[Y]) }
}

#[test]
fn an_ip_on_another_network_is_owned_by_its_pod() {
    let (mut world, _) = World::where_a_died();
    let b = attached("other", "b", "b", X);
    world.pod(&b);
    assert_eq!(world.reasons(), [Reason::Reused]);
    assert_eq!(world.denials()[0].4, Some(b.uid));
    assert!(world.state.tables().terminated.is_empty(), "somebody holds it");
    let (owners, _) = world.state.take_owners(usize::MAX);
    assert_eq!(owners.get(&X).map(|owner| (owner.uid, owner.flags)), Some((b.uid, 0)));
    world.tell(Fact::Pod(Change::Deleted(b)));
    assert_eq!(world.reasons(), [Reason::DeadBackend]);
}

#[test]
fn a_claim_on_another_network_is_no_proof_against_a_pod_that_may_still_run() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a));
    assert_eq!(world.reasons(), [Reason::RetiredBackend]);
    world.pod(&attached("other", "b", "b", X));
    assert_eq!(
        world.reasons(),
        [Reason::RetiredBackend],
        "networks may overlap, and the packet is for neither"
    );
    world.pod(&pod("other", "b", "b", &[X]));
    assert_eq!(world.reasons(), [Reason::Reused], "now it is a podIP");
}

#[test]
fn overlapping_networks_are_no_conflict() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&attached("other", "b", "b", X));
    assert_eq!(world.state.live_claimants(X).count(), 1);
    let (owners, _) = world.state.take_owners(usize::MAX);
    assert_eq!(owners.get(&X).map(|owner| (owner.uid, owner.flags)), Some((a.uid, 0)));
}
