//! Small objects that stand for very many endpoints or VIPs: they are left out, and nothing is denied because of that.

use super::*;
use std::collections::BTreeMap;

const VIP: Addr = Addr::v4([10, 96, 0, 1]);

/// A slice of `shop/web` beside the one of [`slice`], with so many endpoints and ports.
fn wide(endpoints: u16, ports: u16) -> Slice {
    let at = |number: u16| {
        let [high, low] = number.to_be_bytes();
        endpoint(Addr::v4([10, 20, high, low]), None)
    };
    Slice {
        endpoints: (1..=endpoints).map(at).collect(),
        ports: (1..=ports).map(|port| tcp(&port.to_string(), port)).collect(),
        ..slice("web-wide", &[])
    }
}

/// `crowd/wide`, with this external IP and many more, and so many ports from 80 on.
fn service(external: Addr, ports: u16) -> Service {
    let more = (0..=255).map(|last| Addr::v4([203, 0, 113, last]));
    let port = |number: u16| ServicePort { port: 80 + number, node_port: 0, protocol: Protocol::Tcp };
    Service {
        uid: uid("wide"),
        name: ("crowd".into(), "wide".into()),
        vips: std::iter::once(external).chain(more).collect(),
        ports: (0..ports).map(port).collect(),
        ..web()
    }
}

fn one(namespace: &str) -> BTreeMap<String, usize> {
    [(namespace.to_owned(), 1)].into()
}

#[test]
fn a_slice_of_a_million_endpoints_is_left_out_and_its_service_has_no_denials() {
    let (mut world, _) = World::where_a_died();
    world.denies(&[Reason::DeadBackend]);
    let unreadable = Slice { partial: true, ..wide(1, 1) };
    let named = vec!["EndpointSlice shop/web-wide".to_owned()];
    for (sentence, slice, left_out, partial) in [
        ("it may list X for another pod", wide(1_000, 1_000), true, true),
        ("a small one is read", wide(1, 1), false, false),
        ("an address that cannot be read may be X", unreadable, false, true),
    ] {
        let reasons: &[_] = if partial { &[] } else { &[Reason::DeadBackend] };
        world.tell(shown_slice(slice)).denies_as(sentence, reasons);
        let expected = if left_out { one("shop") } else { BTreeMap::new() };
        assert_eq!(world.state.left_out(), expected, "{sentence}");
    }
    assert_eq!(world.state.partial(), (1, named));
    world.tell(shown_slice(wide(1_000, 1_000)));
    world.tell(Fact::Slice(Change::Deleted(wide(1_000, 1_000)))).denies(&[Reason::DeadBackend]);
    assert_eq!(world.state.partial(), (0, vec![]));
}

#[test]
fn an_ip_that_an_oversized_slice_lists_is_no_orphan_and_the_controllers_largest_one_is_indexed() {
    let (mut world, _) = World::with_an_orphan();
    world.tell(shown_slice(wide(1_000, 8)));
    assert_eq!(world.state.left_out(), BTreeMap::new());
    assert!(world.is_orphan(X));
    let mut listing = wide(1_000, 1_000);
    listing.endpoints[0].ip = X;
    world.tell(shown_slice(listing));
    assert!(!world.is_orphan(X));
}

#[test]
fn a_service_with_too_many_vips_is_left_out_and_its_possible_vips_are_ambiguous() {
    let (mut world, a) = World::cluster().with_a();
    let none = Addr::v4([203, 0, 114, 1]);
    world.pod(&dead(&a));
    let denies = |world: &World| world.state.tables().services.keys().any(|vip| vip.addr == VIP);
    assert!(denies(&world));
    world.tell(Fact::Service(Change::Applied(service(none, 1_000))));
    assert_eq!(world.state.left_out(), one("crowd"));
    assert!(denies(&world), "it claims no VIP of shop/web");
    world.tell(Fact::Service(Change::Applied(service(VIP, 1_000))));
    assert!(!denies(&world), "it may claim one");
    world.tell(Fact::Service(Change::Applied(service(none, 10))));
    assert_eq!(world.state.left_out(), BTreeMap::new());
    assert!(denies(&world));
}

#[test]
fn a_service_that_is_read_in_part_has_no_denials_and_is_named_and_a_pod_is_named_too() {
    let (mut world, _) = World::where_a_died();
    for (partial, reasons) in [(true, &[][..]), (false, &[Reason::DeadBackend])] {
        world.tell(Fact::Service(Change::Applied(Service { partial, ..web() }))).denies(reasons);
        let (count, first) = world.state.partial();
        assert_eq!((count, first.concat().contains("Service shop/web")), (usize::from(partial), partial));
    }
    world.pod(&Pod { partial: true, ..pod("shop", "c", "web", &[Y]) });
    assert_eq!(world.state.partial(), (1, vec!["Pod shop/c".to_owned()]));
}

#[test]
fn a_service_whose_vip_another_one_claims_is_named() {
    let (mut world, a) = World::cluster().with_a();
    world.tell(Fact::Service(Change::Applied(service(VIP, 1))));
    assert_eq!(world.state.rivals(), [], "nothing is denied");
    world.pod(&dead(&a));
    let rivals = [("shop/web".to_owned(), "crowd/wide".to_owned())];
    assert_eq!(world.state.rivals(), rivals);
}

#[test]
fn every_endpoint_of_a_service_is_restored_once_a_large_slice_is_gone() {
    let (mut world, pods) = World::cluster().with_backends(4);
    world.tell(Fact::Slice(Change::Applied(wide(1_000, 1_000))));
    world.slice(&endpoints(&pods));
    world.pod(&dead(&pods[0])).denies(&[]);
    world.tell(Fact::Slice(Change::Reset(vec![slice("web", &endpoints(&pods))])));
    assert_eq!(world.reasons(), [Reason::DeadBackend]);
}
