//! Small objects that stand for very many endpoints or VIPs: they are left out, or nothing of them
//! is kept, and nothing is denied because of that.

use super::*;
use serde_json::json;
use std::collections::BTreeMap;

const VIP: Addr = Addr::v4([10, 96, 0, 1]);

/// A slice of `shop/web` beside the one of [`slice`], with so many endpoints and ports.
fn wide(endpoints: u16, ports: u16) -> Slice {
    Slice {
        endpoints: (1..=endpoints)
            .map(|number: u16| {
                let [high, low] = number.to_be_bytes();
                endpoint(Addr::v4([10, 20, high, low]), None)
            })
            .collect(),
        ports: (1..=ports)
            .map(|port| tcp(&port.to_string(), port))
            .collect(),
        ..slice("web-wide", &[])
    }
}

/// The same where it is too large to be kept.
fn too_large() -> Slice {
    wide(0, 0).emptied()
}

/// `crowd/wide`, with this external IP and many more, and so many ports from 80 on.
fn service(external: Addr, ports: u16) -> Service {
    let more = (0..=255).map(|last| Addr::v4([203, 0, 113, last]));
    Service {
        uid: uid("wide"),
        name: ObjectName::new("crowd", "wide"),
        vips: std::iter::once(external).chain(more).collect(),
        ports: (0..ports)
            .map(|number: u16| ServicePort {
                port: 80 + number,
                node_port: 0,
                protocol: Protocol::Tcp,
            })
            .collect(),
        ..web()
    }
}

fn one(namespace: &str) -> BTreeMap<String, usize> {
    [(namespace.to_owned(), 1)].into()
}

#[test]
fn a_service_of_a_slice_of_which_nothing_is_kept_has_no_denials() {
    let (mut world, _) = World::where_a_died();
    world.denies(&[Reason::DeadBackend]);
    let named = vec!["EndpointSlice shop/web-wide".to_owned()];
    world
        .tell(shown_slice(too_large()))
        .denies_as("it may list X for another pod", &[]);
    assert_eq!(report::read_in_part(&world.state), (1, named));
    world
        .tell(shown_slice(wide(1, 1)))
        .denies(&[Reason::DeadBackend]);
    world.tell(shown_slice(too_large())).denies(&[]);
    world
        .tell(Fact::Slice(Change::Deleted(too_large())))
        .denies(&[Reason::DeadBackend]);
    assert_eq!(
        (
            report::read_in_part(&world.state),
            report::left_out(&world.state)
        ),
        ((0, vec![]), BTreeMap::new())
    );
}

#[test]
fn an_ip_in_a_slice_of_1000_endpoints_and_4_ports_is_no_orphan_and_one_that_only_a_larger_slice_lists_is()
 {
    let listing = |ports: u16| {
        let ips = (0..1_000_u16).map(|number| format!("10.20.{}.{}", number >> 8, number & 255));
        let listed = ips
            .chain([X.ip().to_string()])
            .skip(1)
            .map(|ip| json!({"addresses": [ip]}));
        let slice = json!({
            "metadata": {"namespace": "shop", "name": "wide", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "endpoints": listed.collect::<Vec<_>>(),
            "ports": (1..=ports).map(|port| json!({"port": port})).collect::<Vec<_>>(),
        });
        shown_slice(Slice::parse(slice.to_string().as_bytes()).unwrap())
    };
    let (mut world, _) = World::with_an_orphan();
    world.tell(listing(4));
    assert_eq!(
        (world.is_orphan(X), report::left_out(&world.state)),
        (false, BTreeMap::new())
    );
    world.tell(listing(5));
    assert!(world.is_orphan(X));
}

#[test]
fn a_service_with_too_many_ports_at_one_ip_has_no_denials_until_they_are_forgotten() {
    let (mut world, _) = World::where_a_died();
    let ports = |name: &str, first: u16| Slice {
        name: ObjectName::new("shop", name),
        ports: (first..first + 1_024)
            .map(|port| tcp(&port.to_string(), port))
            .collect(),
        ..slice("web", &[(Y, None)])
    };
    let names = ["web-0", "web-1", "web-2"];
    for ((number, name), expected) in (1..).zip(names).zip([1, 1, 0]) {
        world.tell(shown_slice(ports(name, 1_024 * number)));
        assert_eq!(world.reasons().len(), expected, "{name}");
    }
    assert_eq!(report::left_out(&world.state), one("shop"));
    for name in names {
        world.tell(Fact::Slice(Change::Deleted(ports(name, 0))));
    }
    world.later(Duration::from_mins(11));
    assert_eq!(
        (world.reasons(), report::left_out(&world.state)),
        (vec![Reason::DeadBackend], BTreeMap::new())
    );
}

#[test]
fn a_service_with_too_many_vips_is_left_out_and_its_possible_vips_are_ambiguous() {
    let (mut world, a) = World::cluster().with_a();
    let none = Addr::v4([203, 0, 114, 1]);
    world.pod(&dead(&a));
    let denies = |world: &World| {
        world
            .state
            .tables()
            .services
            .keys()
            .any(|vip| vip.addr == VIP)
    };
    assert!(denies(&world));
    world.tell(Fact::Service(Change::Applied(service(none, 1_000))));
    assert_eq!(report::left_out(&world.state), one("crowd"));
    assert!(denies(&world), "it claims no VIP of shop/web");
    world.tell(Fact::Service(Change::Applied(service(VIP, 1_000))));
    assert!(!denies(&world), "it may claim one");
    world.tell(Fact::Service(Change::Applied(service(none, 10))));
    assert!(!denies(&world), "its connections go on");
    world.later(MEMORY);
    assert_eq!(report::left_out(&world.state), BTreeMap::new());
    assert!(denies(&world));
}

#[test]
fn a_slice_of_one_more_service_than_a_namespace_may_have_is_left_out_until_another_is_forgotten() {
    let (mut world, _) = World::where_a_died();
    let numbered = |namespace: &str, number: usize| {
        let name: ObjectName = ObjectName::new(namespace, format!("web-{number}"));
        Slice {
            name: name.clone(),
            service: Some(name),
            ..slice("web", &[(Y, None)])
        }
    };
    for number in 0..1_500 {
        world.tell(shown_slice(numbered("crowd", number)));
    }
    assert_eq!(report::left_out(&world.state), BTreeMap::new());
    world
        .tell(shown_slice(numbered("crowd", 1_500)))
        .tell(shown_slice(numbered("other", 0)));
    assert_eq!(report::left_out(&world.state), one("crowd"));
    world.denies(&[Reason::DeadBackend]);
    world
        .tell(Fact::Slice(Change::Deleted(numbered("crowd", 0))))
        .later(Duration::from_mins(11));
    assert_eq!(report::left_out(&world.state), BTreeMap::new());
}

#[test]
fn of_more_vips_than_a_namespace_may_have_the_rest_is_left_out_and_those_of_another_are_not() {
    let mut world = World::cluster();
    let none = Addr::v4([203, 0, 114, 1]);
    let wide = |namespace: &str, number: usize| {
        let name = ObjectName::new(namespace, format!("wide-{number}"));
        Fact::Service(Change::Applied(Service {
            name,
            ..service(none, 15)
        }))
    };
    world.tell(wide("crowd", 0));
    assert_eq!(report::left_out(&world.state), BTreeMap::new());
    world.tell(wide("crowd", 1)).tell(wide("other", 0));
    assert_eq!(report::left_out(&world.state), one("crowd"));
}

#[test]
fn a_service_beside_more_starting_pods_than_are_looked_at_is_denied_only_what_a_stranger_shows() {
    let (mut world, pods) = World::cluster().with_backends(2);
    for pod in &pods {
        world.pod(&dead(pod));
    }
    world.pod(&Pod {
        ips: pods[0].ips.clone(),
        ..b()
    });
    let starting = |number: usize| pending("shop", &format!("starts-{number}"), "another");
    let bounded = |bound| Fact::Service(Change::Applied(Service { bound, ..web() }));
    for number in 1..=4_096 {
        world.pod(&starting(number));
    }
    world
        .tell(bounded(Mode::Observe))
        .denies(&[Reused, DeadBackend]);
    world
        .pod(&starting(0))
        .tell(bounded(Mode::Enforce))
        .denies(&[Reused]);
    let view = report::view_ip(&world.state, pods[1].ips[0]);
    assert_eq!(
        view.services[0].endpoints[0].not_proven,
        Some(NotProven::TooLarge)
    );
}

#[test]
fn the_history_keeps_a_part_of_what_a_namespace_lists_at_an_ip_and_all_of_another() {
    let (mut world, _) = World::where_a_died();
    for number in 0..40 {
        let name: ObjectName = ObjectName::new("other", format!("crowd-{number:02}"));
        let ports = (1..=100).map(|port| tcp(&port.to_string(), port)).collect();
        let listing = Slice {
            name: name.clone(),
            service: Some(name),
            ports,
            ..slice("crowd", &[(X, None)])
        };
        world.tell(shown_slice(listing));
    }
    for number in 0..100 {
        let name = format!("claims-{number}");
        world.pod(&Pod {
            deleting: true,
            ..pod("other", &name, &name, &[X])
        });
    }
    let (kept, work) = report::view_for_history(&world.state, X);
    let names: Vec<&str> = kept
        .services
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "other/crowd-00",
            "other/crowd-01",
            "other/crowd-02",
            "other/crowd-03",
            "other/crowd-04",
            "shop/web"
        ]
    );
    assert!(
        kept.partial && kept.pods.len() < 70 && work < 1_024,
        "{work}"
    );
    let whole = report::view_ip(&world.state, X);
    assert_eq!(
        (whole.services.len(), whole.pods.len(), whole.partial),
        (41, 101, false)
    );
}

#[test]
fn what_the_history_does_not_keep_of_a_namespace_takes_no_room_of_another() {
    let (mut world, _) = World::where_a_died();
    let name: ObjectName = ObjectName::new("other", "crowd");
    let ports = (1..=1_024)
        .map(|port| tcp(&port.to_string(), port))
        .collect();
    let listing = Slice {
        name: name.clone(),
        service: Some(name),
        ports,
        ..slice("crowd", &[(X, None)])
    };
    world.tell(shown_slice(listing));
    let (kept, _) = report::view_for_history(&world.state, X);
    let names: Vec<&str> = kept
        .services
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    assert_eq!((names, kept.partial), (vec!["shop/web"], true));
}

#[test]
fn a_service_that_is_read_in_part_has_no_denials_and_is_named_and_a_pod_is_named_too() {
    let (mut world, _) = World::where_a_died();
    for (partial, reasons) in [(true, &[][..]), (false, &[Reason::DeadBackend])] {
        world
            .tell(Fact::Service(Change::Applied(Service { partial, ..web() })))
            .denies(reasons);
        let (count, first) = report::read_in_part(&world.state);
        assert_eq!(
            (count, first.concat().contains("Service shop/web")),
            (usize::from(partial), partial)
        );
    }
    world.pod(&Pod {
        partial: true,
        ..pod("shop", "c", "web", &[Y])
    });
    assert_eq!(
        report::read_in_part(&world.state),
        (1, vec!["Pod shop/c".to_owned()])
    );
}

#[test]
fn a_service_whose_vip_another_one_claims_is_named() {
    let (mut world, a) = World::cluster().with_a();
    world.tell(Fact::Service(Change::Applied(service(VIP, 1))));
    assert_eq!(report::rivals(&world.state), [], "nothing is denied");
    world.pod(&dead(&a));
    let rivals = [("shop/web".to_owned(), "crowd/wide".to_owned())];
    assert_eq!(report::rivals(&world.state), rivals);
}

#[test]
fn every_endpoint_of_a_service_is_restored_once_a_large_slice_is_gone() {
    let (mut world, pods) = World::cluster().with_backends(4);
    world.tell(shown_slice(too_large()));
    world.slice(&endpoints(&pods));
    world.pod(&dead(&pods[0])).denies(&[]);
    world.tell(Fact::Slice(Change::Reset(vec![slice(
        "web",
        &endpoints(&pods),
    )])));
    assert_eq!(world.reasons(), [Reason::DeadBackend]);
}
