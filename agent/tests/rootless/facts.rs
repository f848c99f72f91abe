//! What an object of the API comes down to, and which statuses prove a death.

use epguard_common::{Addr, UidState};
use epguard_core::facts::{
    ANY_PORT, HostPort, ListedSlice, Node, Object as _, ObjectName, Pod, Protocol, Sandbox,
    Service, Slice,
};
use serde_json::{Value, json};
use std::time::UNIX_EPOCH;

/// A pod that a 1.36 kubelet has reported as failed, as recorded.
pub fn failed() -> Value {
    json!({
        "metadata": {
            "name": "bad", "namespace": "rd", "uid": "145c3e45-83c2-43e7-82af-16a616c6f5e0",
            "managedFields": [
                {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {"f:metadata": {}}},
                {"manager": "kubelet", "operation": "Update", "subresource": "status",
                 "fieldsV1": {"f:status": {"f:phase": {}, "f:podIPs": {}}}},
            ],
        },
        "spec": {"nodeName": "node-a", "containers": [{"name": "c"}]},
        "status": {
            "phase": "Failed", "podIP": "10.244.1.10", "podIPs": [{"ip": "10.244.1.10"}],
            "hostIP": "10.250.0.11", "hostIPs": [{"ip": "10.250.0.11"}],
            "conditions": [{"type": "PodReadyToStartContainers", "status": "False",
                            "lastProbeTime": null, "lastTransitionTime": "2026-11-21T01:16:33Z"}],
            "containerStatuses": [{"name": "c", "lastState": {},
                "state": {"terminated": {"exitCode": 1, "startedAt": "2026-11-21T01:16:27Z"}}}],
        },
    })
}

fn pod(object: &Value) -> Pod {
    Pod::parse(object.to_string().as_bytes()).unwrap()
}

/// Fields that a change may add; others have to be there.
const ADDED: [&str; 3] = [
    "annotations",
    "ephemeralContainerStatuses",
    "initContainerStatuses",
];

pub fn changed(mut object: Value, changes: &[(&str, Value)]) -> Pod {
    for (pointer, value) in changes {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        if ADDED.contains(&field) {
            object.pointer_mut(parent).unwrap()[field] = Value::Null;
        }
        *object.pointer_mut(pointer).unwrap() = value.clone();
    }
    pod(&object)
}

fn uid_state(pointer: &str, value: Value) -> UidState {
    let pod = changed(failed(), &[(pointer, value)]);
    assert_eq!(pod.mirror, pointer == "/metadata/annotations");
    pod.uid_state
}

#[test]
fn a_failed_pod_as_the_kubelet_reports_it_is_dead() {
    let pod = pod(&failed());
    assert_eq!(pod.uid_state, UidState::Dead);
    assert_eq!(pod.ips.as_slice(), [Addr::v4([10, 244, 1, 10])]);
    assert_eq!(pod.node.as_deref(), Some("node-a"));
}

#[test]
fn a_phase_of_another_writer_than_the_kubelet_proves_no_death() {
    for (sentence, pointer, value) in [
        (
            "a controller wrote it",
            "/metadata/managedFields/1/manager",
            json!("kube-controller-manager"),
        ),
        (
            "not as the status",
            "/metadata/managedFields/1/subresource",
            json!(""),
        ),
        (
            "two wrote it",
            "/metadata/managedFields/0/fieldsV1",
            json!({"f:status": {"f:phase": {}}}),
        ),
        (
            "the writers are unknown",
            "/metadata/managedFields",
            json!([]),
        ),
    ] {
        assert_eq!(uid_state(pointer, value), UidState::Retired, "{sentence}");
    }
}

#[test]
fn the_kubelet_is_whichever_manager_alone_reports_the_sandbox() {
    let phase = || json!({"f:phase": {}});
    let sandbox = || json!({"f:conditions": {r#"k:{"type":"PodReadyToStartContainers"}"#: {}}});
    let both = || json!({"f:phase": {}, "f:podIP": {}});
    let entry = |manager: &str, fields: Value| json!({"manager": manager, "subresource": "status", "fieldsV1": {"f:status": fields}});
    for (sentence, entries, expected) in [
        ("on Linux", vec![entry("kubelet", both())], UidState::Dead),
        (
            "on Windows",
            vec![entry("kubelet.exe", both())],
            UidState::Dead,
        ),
        (
            "KubeEdge's cloud part writes for it",
            vec![entry("cloudcore", both())],
            UidState::Dead,
        ),
        (
            "another wrote the phase",
            vec![entry("kubelet", sandbox()), entry("client", phase())],
            UidState::Retired,
        ),
        (
            "another reported the sandbox, too",
            vec![entry("a", both()), entry("b", sandbox())],
            UidState::Retired,
        ),
        (
            "none reported the sandbox",
            vec![entry("kubelet", phase())],
            UidState::Retired,
        ),
    ] {
        assert_eq!(
            uid_state("/metadata/managedFields", json!(entries)),
            expected,
            "{sentence}"
        );
    }
}

#[test]
fn where_the_kubelet_and_the_controllers_are_one_manager_the_end_must_be_the_kubelets() {
    let pod = |manager: &str, changes: &[(&str, Value)]| {
        let mut object = failed();
        object["metadata"]["managedFields"][0]["manager"] = json!(manager);
        object["metadata"]["managedFields"][1]["manager"] = json!("k3s");
        let ended = json!({"type": "ContainersReady", "status": "False", "reason": "PodFailed"});
        object["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(ended);
        object["metadata"]["deletionTimestamp"] = Value::Null;
        changed(object, changes).uid_state
    };
    let deleted = ("/metadata/deletionTimestamp", json!("2026-11-21T01:16:40Z"));
    let not_ended = ("/status/conditions/1/reason", json!("ContainersNotReady"));
    let by_podgc = (
        "/status/conditions/1",
        json!({"type": "DisruptionTarget", "reason": "DeletionByPodGC"}),
    );
    assert_eq!(pod("k3s", &[]), UidState::Dead);
    let not_as_the_status = ("/metadata/managedFields/1/subresource", json!(""));
    for change in [
        deleted.clone(),
        not_ended.clone(),
        by_podgc.clone(),
        not_as_the_status,
    ] {
        assert_eq!(pod("k3s", &[change]), UidState::Retired);
    }
    assert_eq!(pod("kubectl", &[deleted]), UidState::Dead);
    assert_eq!(pod("kubectl", &[not_ended]), UidState::Dead);
    assert_eq!(
        pod("kubectl", &[by_podgc]),
        UidState::Retired,
        "PodGC has marked it"
    );
}

#[test]
fn a_pod_outside_of_the_host_network_has_its_containers_host_ports() {
    let ports = json!([
        {"containerPort": 80, "hostPort": 8080, "protocol": "TCP"},
        {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "192.0.2.1"},
        {"containerPort": 90, "hostPort": 90, "hostIP": "0.0.0.0"},
        {"containerPort": 91},
    ]);
    let host_port = |addr, port, protocol| HostPort {
        addr,
        port,
        protocol,
    };
    let ports_of = |containers: Value, host_network: bool| {
        let spec =
            json!({"nodeName": "node-a", "containers": containers, "hostNetwork": host_network});
        changed(failed(), &[("/spec", spec)]).host_ports.into_vec()
    };
    let containers = json!([{"name": "c", "ports": ports}]);
    let expected = [
        host_port(None, 8080, Protocol::Tcp),
        host_port(Some(Addr::v4([192, 0, 2, 1])), 53, Protocol::Udp),
        host_port(None, 90, Protocol::Tcp),
    ];
    assert_eq!(ports_of(containers.clone(), false), expected);
    assert_eq!(ports_of(containers, true), []);
    let many: Vec<_> = (1..400).map(|port| json!({"hostPort": port})).collect();
    let any: Vec<_> = ports_of(json!([{"ports": many}]), false);
    assert!(
        any.len() == 3 && any.iter().all(|port| port.port == 0),
        "one with more may have any"
    );
}

#[test]
fn a_pod_whose_containers_or_sandbox_may_run_is_not_dead() {
    let running = || json!({"running": {"startedAt": "2026-11-21T01:16:27Z"}});
    let waiting = || json!({"waiting": {"reason": "PodInitializing"}});
    let two = json!([{"name": "c"}, {"name": "d"}]);
    let mirror = json!({"kubernetes.io/config.mirror": "abc"});
    let debug = json!([{"name": "debug", "state": running()}]);
    let init = json!([{"name": "i", "state": waiting()}]);
    for (sentence, pointer, value, expected) in [
        (
            "the pod is running",
            "/status/phase",
            json!("Running"),
            UidState::Live,
        ),
        (
            "its sandbox is up",
            "/status/conditions/0/status",
            json!("True"),
            UidState::Retired,
        ),
        (
            "its sandbox is not reported",
            "/status/conditions",
            json!([]),
            UidState::Retired,
        ),
        (
            "a container runs",
            "/status/containerStatuses/0/state",
            running(),
            UidState::Retired,
        ),
        (
            "none ever ran",
            "/status/containerStatuses/0/state",
            waiting(),
            UidState::Retired,
        ),
        (
            "none is reported",
            "/status/containerStatuses",
            json!([]),
            UidState::Retired,
        ),
        (
            "one is not reported",
            "/spec/containers",
            two,
            UidState::Retired,
        ),
        (
            "a debug container runs",
            "/status/ephemeralContainerStatuses",
            debug,
            UidState::Retired,
        ),
        (
            "an init container never started",
            "/status/initContainerStatuses",
            init,
            UidState::Dead,
        ),
        (
            "it is a mirror pod",
            "/metadata/annotations",
            mirror,
            UidState::Retired,
        ),
    ] {
        assert_eq!(uid_state(pointer, value), expected, "{sentence}");
    }
}

#[test]
fn published_ips_count_once_a_container_was_started_in_the_sandbox_that_is_up() {
    let mut object = failed();
    object["status"]["phase"] = json!("Running");
    object["status"]["conditions"][0]["status"] = json!("True");
    object["status"]["containerStatuses"][0]["state"] =
        json!({"running": {"startedAt": "2026-11-21T01:16:34Z"}});
    assert_eq!(pod(&object).sandbox, Sandbox::Published);
    object["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] =
        json!("2026-11-21T01:16:27Z");
    assert_eq!(
        pod(&object).sandbox,
        Sandbox::FirstStarts,
        "or the clock was set back"
    );
    object["status"]["containerStatuses"][0]["restartCount"] = json!(1);
    assert_eq!(
        pod(&object).sandbox,
        Sandbox::Unsettled,
        "the container of the sandbox before"
    );
    object["status"]["conditions"][0]["status"] = json!("False");
    assert_eq!(pod(&object).sandbox, Sandbox::Unsettled);
}

#[test]
fn a_status_tells_whether_a_container_waits_for_another_reason_than_before() {
    let waits =
        |state: Value| changed(failed(), &[("/status/containerStatuses/0/state", state)]).waits;
    let waiting = |reason: &str, message: &str| {
        waits(json!({"waiting": {"reason": reason, "message": message}}))
    };
    let pulling = waiting("ErrImagePull", "no such image");
    assert_eq!(
        waiting("ErrImagePull", "no answer"),
        pulling,
        "for the same reason"
    );
    assert_ne!(waiting("ImagePullBackOff", "no such image"), pulling);
    assert_ne!(waits(json!({"running": {}})), pulling);
}

#[test]
fn malformed_values_are_left_out_and_the_pod_stays() {
    let mut object = failed();
    object["status"]["podIPs"] =
        json!([{"ip": "banana"}, {"ip": "10.244.1.9"}, {"ip": "224.0.0.1"}, {}]);
    object["status"]["podIP"] = json!("");
    object["metadata"]["labels"] = Value::Null;
    let parsed = pod(&object);
    assert_eq!(
        (parsed.ips.as_slice(), parsed.partial),
        (&[Addr::v4([10, 244, 1, 9])][..], true)
    );
    object["status"]["podIPs"] = json!([{"ip": "10.244.1.9"}, {}]);
    object["status"]["containerStatuses"] = json!([{"restartCount": -1}]);
    assert!(!pod(&object).partial, "no IP is none that cannot be read");
    for uid in [json!(""), Value::Null] {
        let mut object = failed();
        object["metadata"]["uid"] = uid;
        assert!(Pod::parse(object.to_string().as_bytes()).is_err());
    }
    assert!(Pod::parse(b"[]").is_err());
    assert!(Pod::parse(b"{").is_err());
}

#[test]
fn a_slice_keeps_only_the_fields_that_match_packets() {
    let slice = json!({
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.244.1.10"], "targetRef": {"kind": "Pod", "name": "pg-0", "uid": "a"}},
            {"addresses": ["10.244.1.11"], "targetRef": {"kind": "Pod", "namespace": "db", "name": "pg-0", "uid": ""}},
            {"addresses": ["10.244.1.12"], "targetRef": {"kind": "Node", "name": "pg-0", "uid": "n"}, "conditions": {"ready": false}},
            {"addresses": ["banana"]},
        ],
        "ports": [{"port": 8080, "protocol": "TCP"}, {"port": null}, {"port": 70000}, {"port": 0}, {"port": 9, "protocol": "QUIC"}],
    });
    let listed = |slice: &Value| ListedSlice::parse(slice.to_string().as_bytes()).unwrap();
    let parsed = listed(&slice).facts;
    assert_eq!(
        (parsed.endpoints.len(), parsed.partial, parsed.foreign),
        (3, true, true)
    );
    assert_eq!(
        parsed
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.target.is_some())
            .count(),
        1
    );
    assert_eq!(*parsed.namespaces, ["db", "shop"]);
    assert_eq!(
        parsed
            .endpoints
            .iter()
            .map(|endpoint| endpoint.ready)
            .collect::<Vec<_>>(),
        [true, true, false]
    );
    let ports: Vec<u16> = parsed.ports.iter().map(|port| port.port).collect();
    assert_eq!(
        ports,
        [8080, ANY_PORT, ANY_PORT, ANY_PORT, ANY_PORT],
        "what cannot be read may be any port"
    );
    let kept = Slice::parse(slice.to_string().as_bytes()).unwrap();
    assert_eq!(
        kept,
        parsed.clone().emptied(),
        "any IP may be the one that cannot be read"
    );
    let target = |namespace: &str| Some(ObjectName::new(namespace, "pg-0"));
    let facts = parsed;
    let targets = vec![target("shop"), target("db"), None];
    assert_eq!(
        listed(&slice),
        ListedSlice {
            facts,
            managed_by: None,
            targets
        }
    );
    let mut names = slice;
    for (writer, is_foreign) in [("me", true), (Slice::CONTROLLER, false)] {
        names["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = json!(writer);
        assert_eq!(
            Slice::parse(names.to_string().as_bytes()).unwrap().foreign,
            is_foreign,
            "{writer}"
        );
        assert_eq!(listed(&names).managed_by.as_deref(), Some(writer));
    }
    names["addressType"] = json!("FQDN");
    names["metadata"]["labels"]["kubernetes.io/service-name"] = json!("web");
    assert_eq!(listed(&names).targets, []);
    let names_alone = Slice::parse(names.to_string().as_bytes()).unwrap();
    assert_eq!(
        (names_alone.endpoints, names_alone.partial),
        (vec![], false)
    );
    names["endpoints"] = Value::Null;
    names["ports"] = Value::Null;
    assert_eq!(
        Slice::parse(names.to_string().as_bytes()).unwrap().ports[0].port,
        ANY_PORT
    );
}

#[test]
fn of_a_slice_that_lists_more_than_controllers_write_nothing_is_kept_but_its_service() {
    let slice = |labels: &Value, endpoints: usize, addresses: usize, ports: usize| {
        let address =
            |number: usize| format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255);
        let slice = json!({
            "metadata": {"name": "web-1", "namespace": "shop", "labels": labels},
            "addressType": "IPv4",
            "endpoints": (0..endpoints).map(|endpoint: usize| {
            let addresses: Vec<String> = (0..addresses)
                .map(|more| address(endpoint * addresses + more + 1))
                .collect();
            json!({"addresses": addresses})
        }).collect::<Vec<Value>>(),
            "ports": (1..=ports).map(|port| json!({"port": port})).collect::<Vec<Value>>(),
        });
        Slice::parse(slice.to_string().as_bytes()).unwrap()
    };
    let web = json!({"kubernetes.io/service-name": "web"});
    for (endpoints, addresses, ports, is_kept) in [
        (1_000, 1, 4, true),
        (1_024, 1, 4, true),
        (1_000, 1, 0, true),
        (4, 1, 1_024, true),
        (1_025, 1, 1, false),
        (1_025, 1, 0, false),
        (1_000, 100, 1, false),
        (1_000, 1, 5, false),
        (1, 1, 1_025, false),
    ] {
        let kept = slice(&web, endpoints, addresses, ports);
        let row = format!("{endpoints} endpoints of {addresses} addresses, {ports} ports");
        // A slice without ports means any port.
        let expected = if is_kept {
            (endpoints * addresses, ports.max(1), false)
        } else {
            (0, 0, true)
        };
        assert_eq!(
            (kept.endpoints.len(), kept.ports.len(), kept.partial),
            expected,
            "{row}"
        );
        assert_eq!(kept.service, Some(ObjectName::new("shop", "web")), "{row}");
    }
    let of_none = slice(&json!({}), 10, 1, 1);
    assert_eq!(
        (of_none.service, of_none.endpoints, of_none.ports.len()),
        (None, vec![], 0)
    );
}

#[test]
fn a_slice_that_names_pods_of_too_many_namespaces_or_of_one_that_cannot_exist_is_not_kept() {
    let listed = |namespaces: &[String]| {
        let slice = json!({
            "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "endpoints": namespaces.iter().map(|namespace: &String| json!({"addresses": ["10.244.1.10"], "targetRef": {"kind": "Pod", "namespace": namespace}})).collect::<Vec<Value>>(),
        });
        let slice = Slice::parse(slice.to_string().as_bytes()).unwrap();
        (slice.endpoints.len(), slice.namespaces.len(), slice.partial)
    };
    let many = |count: usize| {
        (0..count)
            .map(|number| format!("n{number}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(listed(&many(64)), (64, 64, false));
    assert_eq!(listed(&many(65)), (0, 64, true));
    assert_eq!(listed(&["x".repeat(63)]), (1, 1, false));
    assert_eq!(listed(&["x".repeat(64)]), (0, 0, true));
}

#[test]
fn a_slice_has_the_time_of_its_trigger_unless_it_is_malformed() {
    let triggered = |text: &str| {
        let annotations = json!({"endpoints.kubernetes.io/last-change-trigger-time": text});
        let slice =
            json!({"metadata": {"name": "web-1", "namespace": "shop", "annotations": annotations}});
        let slice = Slice::parse(slice.to_string().as_bytes()).unwrap();
        slice
            .triggered
            .map(|at| at.duration_since(UNIX_EPOCH).unwrap().as_millis())
    };
    assert_eq!(triggered("1970-01-01T00:00:07Z"), Some(7_000));
    assert_eq!(triggered("1970-01-01T02:00:07.5+02:00"), Some(7_500));
    assert_eq!(triggered("yesterday"), None);
}

#[test]
fn a_service_is_known_by_all_its_addresses_unless_it_is_headless() {
    let mut service = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "s"},
        "spec": {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "fd00::1"], "externalIPs": ["192.0.2.1"],
                 "selector": {}, "ports": [{"port": 80, "nodePort": 30080}, {"port": -1}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}, {"hostname": "lb.example"}]}},
    });
    let parsed = Service::parse(service.to_string().as_bytes()).unwrap();
    assert_eq!(
        (parsed.vips.len(), parsed.proxied.len(), parsed.partial),
        (4, 0, false)
    );
    assert_eq!((parsed.ports.len(), parsed.ports[0].node_port), (1, 30080));
    assert!(!parsed.other_proxy);
    let label = json!({"service.kubernetes.io/service-proxy-name": "mine"});
    let mut other = service.clone();
    other["metadata"]["labels"] = label;
    let other = Service::parse(other.to_string().as_bytes()).unwrap();
    assert!(other.other_proxy && other.vips.len() == 4);
    assert_eq!(parsed.selector, None, "an empty selector selects nothing");
    let mut proxied = service.clone();
    proxied["status"]["loadBalancer"]["ingress"][0]["ipMode"] = json!("Proxy");
    let proxied = Service::parse(proxied.to_string().as_bytes()).unwrap();
    assert_eq!(
        (proxied.vips.len(), proxied.proxied),
        (3, vec![Addr::v4([192, 0, 2, 2])])
    );
    let mut unreadable = service.clone();
    unreadable["spec"]["externalIPs"] = json!(["192.0.2.1", "fd00::1%eth0"]);
    assert!(
        Service::parse(unreadable.to_string().as_bytes())
            .unwrap()
            .partial
    );
    service["spec"]["clusterIP"] = json!("None");
    assert_eq!(
        Service::parse(service.to_string().as_bytes()).unwrap().vips,
        [],
        "proxies skip it, externalIPs included"
    );
}

#[test]
fn a_service_whose_selector_is_not_kept_is_read_in_part_and_may_select_any_pod() {
    let service = |labels: usize| {
        let selector: Value = (0..labels)
            .map(|label| (label.to_string(), json!("x")))
            .collect();
        let service = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "s"},
            "spec": {"clusterIP": "10.96.0.1", "selector": selector},
        });
        Service::parse(service.to_string().as_bytes()).unwrap()
    };
    let pod = Pod {
        name: ObjectName::new("shop", "a"),
        ..Pod::default()
    };
    assert_eq!(
        [0, 1, 256, 257].map(|labels| (service(labels).partial, service(labels).selects(&pod))),
        [(false, false), (false, false), (false, false), (true, true)]
    );
    assert_eq!(
        service(257)
            .selector
            .map(|selector| selector.as_str().len()),
        Some(0)
    );
}

#[test]
fn a_virtual_kubelet_is_recognized_by_its_label_or_its_taint() {
    let range = "10.244.1.0/24";
    for (kind, taint, expected) in [
        ("", "", false),
        ("virtual-kubelet", "", true),
        ("", "virtual-kubelet.io/provider", true),
    ] {
        let node = json!({
            "metadata": {"name": "n", "labels": {"type": kind}},
            "spec": {"podCIDR": range, "podCIDRs": [range], "taints": [{"key": taint}]},
        });
        let node = Node::parse(node.to_string().as_bytes()).unwrap();
        assert_eq!(
            (node.virtual_kubelet, node.pod_cidrs.len()),
            (expected, 1),
            "{kind} {taint}"
        );
    }
}

#[test]
fn a_service_is_read_in_part_beyond_256_addresses_or_1024_ports() {
    for (addresses, ports, partial) in [(256, 1_024, false), (257, 1, true), (1, 1_025, true)] {
        let ips: Vec<String> = (1..addresses)
            .map(|number| format!("10.97.{}.{}", number / 256, number % 256))
            .collect();
        let ports: Vec<_> = (1..=ports).map(|port| json!({"port": port})).collect();
        let service = json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "1"},
            "spec": {"clusterIP": "10.96.0.1", "externalIPs": ips, "ports": ports},
        });
        let service = Service::parse(service.to_string().as_bytes()).unwrap();
        assert_eq!(service.partial, partial, "{addresses} addresses");
        assert!(service.vips.len() <= 256 && service.ports.len() <= 1_024);
    }
}
