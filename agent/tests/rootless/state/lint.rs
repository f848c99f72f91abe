//! What lint finds in small clusters; `lab/tests/rootless/lint` has real ones.

use super::*;
use epguard_client::lint::{LintFinding, LintProblem, ListedObjects, Severity, Unlisted, check};

pub const ENDPOINTSLICE: &str = "endpointslice-controller.k8s.io";
pub const MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";

pub fn addr(last: u8) -> Addr {
    Addr::v4([10, 244, 1, last])
}

/// Of node-a, whose range is 10.244.1.0/24.
pub fn backend(name: &str, last: u8) -> Pod {
    pod("shop", name, "web", &[addr(last)])
}

pub fn slice(name: &str, managed_by: Option<&str>, pods: &[&Pod]) -> ListedSlice {
    let endpoints = pods.iter().map(|pod| endpoint(pod.ips[0], Some(pod.uid)));
    ListedSlice {
        facts: Slice {
            endpoints: endpoints.collect(),
            foreign: managed_by != Some(Slice::CONTROLLER),
            ports: vec![],
            namespaces: pods.iter().map(|pod| pod.name.namespace.clone()).collect(),
            ..super::slice(name, &[])
        },
        managed_by: managed_by.map(str::to_owned),
        targets: pods.iter().map(|pod| Some(pod.name.clone())).collect(),
    }
}

pub fn cluster(service: Service, pods: Vec<Pod>, slices: Vec<ListedSlice>) -> ListedObjects {
    ListedObjects {
        slices,
        services: vec![service],
        pods,
        nodes: vec![node("node-a", 1), node("node-b", 2)],
        unlisted: Unlisted::default(),
    }
}

pub fn find_problems(listed: &ListedObjects, namespace: Option<&str>) -> Vec<LintFinding> {
    check(listed, namespace).findings
}

pub fn selector_less() -> Service {
    Service {
        selector: None,
        ..web()
    }
}

/// Each finding in one line, without the fix, which is never empty.
pub fn found(listed: &ListedObjects) -> Vec<String> {
    let mut lines = Vec::new();
    for finding in find_problems(listed, None) {
        assert!(
            !finding.fix.is_empty() && !finding.controller.is_empty(),
            "{finding:?}"
        );
        let address = finding.address.map_or("-".to_owned(), |ip| ip.to_string());
        lines.push(format!(
            "{} {} {address}: {}",
            finding.object, finding.problem, finding.what
        ));
    }
    lines
}

/// A slice that the EndpointSlice controller keeps.
pub fn by_controller(pods: &[&Pod]) -> Vec<ListedSlice> {
    vec![slice("web-1", Some(ENDPOINTSLICE), pods)]
}

pub fn by(managed_by: Option<&str>, pod: &Pod) -> Vec<ListedSlice> {
    vec![slice("web-1", managed_by, &[pod])]
}

#[test]
fn an_address_of_another_pod_or_of_none_is_an_error() {
    let a = backend("a", 10);
    let b = backend("b", 11);
    let c = backend("c", 12);
    let same = backend("b", 10);
    let moved = backend("a", 11);
    let finished = super::dead(&backend("c", 10));
    let stray = Pod {
        ips: [Addr::v4([10, 244, 2, 10])].into(),
        ..backend("stray", 10)
    };
    for (name, listed, expected) in [
        (
            "a correct cluster",
            cluster(web(), vec![a.clone(), b.clone()], by_controller(&[&a, &b])),
            &[][..],
        ),
        (
            "a finished pod does not count",
            cluster(web(), vec![same.clone(), a.clone(), finished], vec![]),
            &[
                "Node node-a duplicate-address 10.244.1.10: pods of node node-a have the same address: 10.244.1.10 \
               (shop/a and shop/b)",
            ],
        ),
        (
            "an address outside of its node's range",
            cluster(
                web(),
                vec![stray.clone(), b.clone(), c],
                by_controller(&[&stray]),
            ),
            &[
                "Node node-a outside-pod-cidr -: its pods have addresses outside of its range 10.244.1.0/24: 10.244.2.10 \
               (shop/stray)",
            ],
        ),
        (
            "ranges that are not used",
            cluster(web(), vec![stray.clone()], by_controller(&[&stray])),
            &[],
        ),
        (
            "the address of no pod",
            cluster(web(), vec![moved.clone()], by_controller(&[&a])),
            &[
                "EndpointSlice shop/web-1 nobodys-address 10.244.1.10: no pod shows it; pod shop/a, which is meant, has \
               10.244.1.11",
            ],
        ),
        (
            "the address of another pod",
            cluster(web(), vec![moved, same], by_controller(&[&a])),
            &[
                "EndpointSlice shop/web-1 anothers-address 10.244.1.10: belongs to shop/b; pod shop/a, which is meant, has \
               10.244.1.11",
            ],
        ),
    ] {
        assert_eq!(found(&listed), expected, "{name}");
    }
}

#[test]
fn an_address_of_a_service_or_node_is_an_error_and_an_ip_that_outlives_its_pod_is_none() {
    let a = backend("a", 10);
    let b = backend("b", 11);
    let machine = |name: &str| Pod {
        static_ip: true,
        ..backend(name, 10)
    };
    let source = machine("vm-1");
    let target = machine("vm-2");
    let ended = super::dead(&source);
    let next = target.clone();
    let with_vip = Service {
        vips: vec![addr(10)],
        ..web()
    };
    let mut at_node = cluster(web(), vec![b], vec![]);
    at_node.nodes[1].addresses = vec![addr(11)];
    let mut on_a_node_of_its_own = cluster(web(), vec![backend("b", 11)], vec![]);
    on_a_node_of_its_own.nodes[0].addresses = vec![addr(11)];
    for (name, listed, expected) in [
        (
            "an IP that outlives its pod",
            cluster(
                web(),
                vec![source.clone(), target],
                by_controller(&[&source]),
            ),
            &[][..],
        ),
        (
            "one whose pod has ended",
            cluster(web(), vec![ended, next], by_controller(&[&source])),
            &[],
        ),
        (
            "the address of a Service",
            cluster(with_vip, vec![a], vec![]),
            &["Pod shop/a foreign-address 10.244.1.10: shop/a has 10.244.1.10 of Service shop/web"],
        ),
        (
            "the address of a Node",
            at_node,
            &["Pod shop/b foreign-address 10.244.1.11: shop/b has 10.244.1.11 of Node node-b"],
        ),
        ("the address of its own Node", on_a_node_of_its_own, &[]),
    ] {
        assert_eq!(found(&listed), expected, "{name}");
    }
}

#[test]
fn slices_of_several_writers_and_those_without_one_are_found() {
    let a = backend("a", 10);
    let b = backend("b", 11);
    let two_controllers = vec![
        slice("web-1", Some("one.example"), &[&a]),
        slice("web-2", None, &[&b]),
    ];
    let beside = |names: &str, count: &str| {
        format!(
            "Service shop/web foreign-controller -: has a selector, by which endpointslice-controller.k8s.io keeps its \
             slices, and {count} of others ({names}): the selector does not tell which pods are its own"
        )
    };
    let of_one = [beside("web-1", "1 slice")];
    let of_two = [beside("web-1, web-2", "2 slices")];
    let of_two_without_selector = [
        "Service shop/web foreign-controller -: has slices of 2 controllers, which do not coordinate (web-1, web-2)"
            .to_owned(),
    ];
    let abandoned = [
        "Service shop/web abandoned-slice -: has no selector, so endpointslice-controller.k8s.io does not update its \
         slices (web-1): they stay as they are when pods end or come"
            .to_owned(),
    ];
    for (name, listed, expected) in [
        (
            "a slice without a controller",
            cluster(web(), vec![a.clone()], by(None, &a)),
            &of_one[..],
        ),
        (
            "another controller",
            cluster(web(), vec![a.clone()], by(Some("me.example"), &a)),
            &of_one,
        ),
        (
            "two others are one finding",
            cluster(web(), vec![a.clone(), b.clone()], two_controllers.clone()),
            &of_two,
        ),
        (
            "without a selector and a controller",
            cluster(selector_less(), vec![a.clone()], by(None, &a)),
            &[],
        ),
        (
            "without a selector, another controller",
            cluster(selector_less(), vec![a.clone()], by(Some("me.example"), &a)),
            &[],
        ),
        (
            "without a selector, a copy of an Endpoints object",
            cluster(selector_less(), vec![a.clone()], by(Some(MIRRORING), &a)),
            &[],
        ),
        (
            "the controller of selectors",
            cluster(selector_less(), vec![a.clone()], by_controller(&[&a])),
            &abandoned,
        ),
        (
            "without a selector, two controllers",
            cluster(selector_less(), vec![a.clone(), b], two_controllers),
            &of_two_without_selector,
        ),
    ] {
        assert_eq!(found(&listed), expected, "{name}");
    }
}

#[test]
fn with_a_namespace_shared_addresses_elsewhere_are_not_reported() {
    let listed = cluster(web(), vec![backend("a", 10), backend("b", 10)], vec![]);
    assert_eq!(find_problems(&listed, Some("shop")).len(), 1);
    assert_eq!(find_problems(&listed, Some("other")), []);
}

#[test]
fn traffic_that_reaches_the_services_own_is_no_error() {
    let old = backend("pg-0", 10);
    let next = backend("pg-0", 10);
    let stranger = pod("other", "b", "b", &[addr(10)]);
    let by_hand = || vec![slice("web-1", Some("patroni"), &[&old])];
    let severities = |service: Service, pods: Vec<Pod>| {
        let found = find_problems(&cluster(service, pods, by_hand()), None).into_iter();
        let found = found.filter(|finding| finding.address.is_some());
        found
            .map(|finding| (finding.problem, finding.severity))
            .collect::<Vec<_>>()
    };
    let mut next = next;
    next.uid = super::uid("next");
    // A writer re-used the targetRef: the pod of that name has the address.
    assert_eq!(
        severities(selector_less(), vec![next]),
        [(LintProblem::ForeignUid, Severity::Warning)]
    );
    // The Service selects the pod that has the address now.
    let selected = backend("pg-1", 10);
    assert_eq!(
        severities(web(), vec![selected]),
        [(LintProblem::GonePod, Severity::Warning)]
    );
    assert_eq!(
        severities(web(), vec![stranger]),
        [(LintProblem::GonePod, Severity::Error)]
    );
}
