//! What lint finds in small clusters; `lab/tests/rootless/lint` has real ones.

use super::world::{node, pod, web};
use epguard::commands::lint::{Listed, Problem, Severity, findings};
use epguard_common::Addr;
use epguard_core::facts::{ListedSlice, Pod, PodName, Service, Slice, SliceEndpoint};

const ENDPOINTSLICE: &str = "endpointslice-controller.k8s.io";
const MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";

fn addr(last: u8) -> Addr {
    Addr::v4([10, 244, 1, last])
}

/// Of node-a, whose range is 10.244.1.0/24.
fn backend(name: &str, last: u8) -> Pod {
    pod("shop", name, "web", &[addr(last)])
}

fn slice(name: &str, managed_by: Option<&str>, pods: &[&Pod]) -> ListedSlice {
    let endpoint = |pod: &&Pod| SliceEndpoint {
        ip: pod.ips[0],
        target: Some(pod.uid),
        target_name: Some(PodName::of_pod(pod)),
        ready: true,
    };
    ListedSlice {
        facts: Slice {
            name: ("shop".into(), name.into()),
            service: Some(("shop".into(), "web".into())),
            endpoints: pods.iter().map(endpoint).collect(),
            partial: false,
            foreign: managed_by != Some(Slice::CONTROLLER),
            ports: vec![],
            triggered: None,
        },
        managed_by: managed_by.map(str::to_owned),
        targets: pods.iter().map(|pod| Some(pod.name.clone())).collect(),
    }
}

fn cluster(service: Service, pods: Vec<Pod>, slices: Vec<ListedSlice>) -> Listed {
    Listed { slices, services: vec![service], pods, nodes: vec![node("node-a", 1), node("node-b", 2)] }
}

fn selector_less() -> Service {
    Service { selector: None, ..web() }
}

/// Each finding in one line, without the fix, which is never empty.
fn found(listed: &Listed) -> Vec<String> {
    let line = |finding: epguard::commands::lint::Finding| {
        assert!(!finding.fix.is_empty() && !finding.controller.is_empty(), "{finding:?}");
        let address = finding.address.map_or("-".to_owned(), |ip| ip.to_string());
        format!("{} {} {address}: {}", finding.object, finding.problem, finding.what)
    };
    findings(listed, None).into_iter().map(line).collect()
}

#[test]
fn a_correct_cluster_has_no_findings() {
    let (a, b) = (backend("a", 10), backend("b", 11));
    let slices = vec![slice("web-1", Some(ENDPOINTSLICE), &[&a, &b])];
    assert_eq!(found(&cluster(web(), vec![a, b], slices)), [""; 0]);
}

#[test]
fn two_pods_with_one_address_are_found_once_and_a_finished_one_does_not_count() {
    let (a, b, c) = (backend("a", 10), backend("b", 10), super::world::dead(&backend("c", 10)));
    assert_eq!(
        found(&cluster(web(), vec![b, a, c], vec![])),
        ["Pod shop/a duplicate-address 10.244.1.10: shop/a and shop/b have the same address"]
    );
}

#[test]
fn an_address_outside_of_the_nodes_range_is_found_only_where_ranges_are_used() {
    let mut stray = backend("stray", 10);
    stray.ips = [Addr::v4([10, 244, 2, 10])].into();
    let (a, b) = (backend("a", 11), backend("b", 12));
    let slices = || vec![slice("web-1", Some(ENDPOINTSLICE), &[&stray])];
    assert_eq!(
        found(&cluster(web(), vec![stray.clone(), a, b], slices())),
        [
            "EndpointSlice shop/web-1 outside-pod-cidr 10.244.2.10: pod shop/stray has it, outside of 10.244.1.0/24 of \
          its node node-a"
        ]
    );
    assert_eq!(found(&cluster(web(), vec![stray.clone()], slices())), [""; 0]);
}

#[test]
fn an_endpoint_of_a_moved_pod_differs_from_one_whose_address_another_pod_has() {
    let (old, now, other) = (backend("a", 10), backend("a", 11), backend("b", 10));
    let slices = || vec![slice("web-1", Some(ENDPOINTSLICE), &[&old])];
    assert_eq!(
        found(&cluster(web(), vec![now.clone()], slices())),
        [
            "EndpointSlice shop/web-1 nobodys-address 10.244.1.10: no pod has it; pod shop/a, which is meant, has 10.244.1.11"
        ]
    );
    assert_eq!(
        found(&cluster(web(), vec![now, other], slices())),
        [
            "EndpointSlice shop/web-1 anothers-address 10.244.1.10: belongs to shop/b; pod shop/a, which is meant, has \
          10.244.1.11"
        ]
    );
}

#[test]
fn a_slice_is_foreign_if_its_service_names_another_controller() {
    let a = backend("a", 10);
    let of = |service, managed_by: Option<&str>| {
        found(&cluster(service, vec![a.clone()], vec![slice("web-1", managed_by, &[&a])]))
    };
    for managed_by in [None, Some("me.example")] {
        assert_eq!(
            of(web(), managed_by),
            ["EndpointSlice shop/web-1 foreign-controller -: Service shop/web has a selector, so \
              endpointslice-controller.k8s.io keeps its slices; this one lists endpoints beside them, and is not \
              updated when pods come and go"]
        );
        assert_eq!(of(selector_less(), managed_by), [""; 0]);
    }
    assert_eq!(
        of(selector_less(), Some(ENDPOINTSLICE)),
        ["EndpointSlice shop/web-1 foreign-controller -: Service shop/web has no selector, so \
          endpointslice-controller.k8s.io does not update this slice any more"]
    );
}

#[test]
fn a_mirrored_slice_that_lists_pods_is_found_and_one_that_lists_others_is_not() {
    let a = backend("a", 10);
    let mut slices = vec![slice("web-1", Some(MIRRORING), &[&a])];
    assert_eq!(
        found(&cluster(selector_less(), vec![a.clone()], slices.clone())),
        [
            "EndpointSlice shop/web-1 mirrored -: lists pods as the Endpoints object shop/web does, which its writer has \
          to keep correct by hand"
        ]
    );
    let ip = Addr::v4([192, 0, 2, 7]);
    slices[0].facts.endpoints = vec![SliceEndpoint { ip, target: None, target_name: None, ready: true }];
    slices[0].targets = vec![None];
    assert_eq!(found(&cluster(selector_less(), vec![a], slices)), [""; 0]);
}

#[test]
fn several_controllers_of_one_service_are_found_on_each_slice() {
    let (a, b) = (backend("a", 10), backend("b", 11));
    let slices = vec![slice("web-1", Some("one.example"), &[&a]), slice("web-2", None, &[&b])];
    let lines = found(&cluster(selector_less(), vec![a, b], slices));
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line.ends_with(
        "foreign-controller -: Service shop/web has slices of 2 controllers, which do not coordinate"
    )));
}

#[test]
fn with_a_namespace_shared_addresses_elsewhere_are_not_reported() {
    let listed = cluster(web(), vec![backend("a", 10), backend("b", 10)], vec![]);
    assert_eq!(findings(&listed, Some("shop")).len(), 1);
    assert_eq!(findings(&listed, Some("other")), []);
}

#[test]
fn pods_whose_ip_outlives_them_are_no_duplicates_and_are_not_to_be_deleted() {
    let machine = |name: &str| Pod { static_ip: true, ..backend(name, 10) };
    let (source, target) = (machine("vm-1"), machine("vm-2"));
    let listing = || vec![slice("web-1", Some(ENDPOINTSLICE), &[&source])];
    let both = vec![source.clone(), target.clone()];
    assert_eq!(found(&cluster(web(), both, listing())), [""; 0]);
    let migrated = vec![super::world::dead(&source), target];
    assert_eq!(found(&cluster(web(), migrated, listing())), [""; 0]);
}

#[test]
fn traffic_that_reaches_the_services_own_is_no_error() {
    let (old, next, stranger) =
        (backend("pg-0", 10), backend("pg-0", 10), pod("other", "b", "b", &[addr(10)]));
    let by_hand = || vec![slice("web-1", Some("patroni"), &[&old])];
    let severities = |service: Service, pods: Vec<Pod>| {
        let found = findings(&cluster(service, pods, by_hand()), None).into_iter();
        let found = found.filter(|finding| finding.address.is_some());
        found.map(|finding| (finding.problem, finding.severity)).collect::<Vec<_>>()
    };
    let mut next = next;
    next.uid = super::world::uid("next");
    // A writer re-used the targetRef: the pod of that name has the address.
    assert_eq!(severities(selector_less(), vec![next]), [(Problem::ForeignUid, Severity::Warning)]);
    // The Service selects the pod that has the address now.
    let selected = backend("pg-1", 10);
    assert_eq!(severities(web(), vec![selected]), [(Problem::GonePod, Severity::Warning)]);
    assert_eq!(severities(web(), vec![stranger]), [(Problem::GonePod, Severity::Error)]);
}

#[test]
fn pods_with_the_address_of_a_service_or_a_node_are_named() {
    let service = Service { vips: vec![addr(10)], ..web() };
    let mut listed = cluster(service, vec![backend("a", 10), backend("b", 11)], vec![]);
    listed.nodes[1].addresses = vec![addr(11)];
    assert_eq!(
        found(&listed),
        [
            "Pod shop/a foreign-address 10.244.1.10: shop/a has the address of Service shop/web",
            "Pod shop/b foreign-address 10.244.1.11: shop/b has the address of Node node-b",
        ]
    );
}
