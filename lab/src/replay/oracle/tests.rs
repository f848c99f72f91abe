//! Small sets of objects: a Service `ns/s` (selector `app: s`, target port 8080) and two nodes.

use super::*;
use crate::replay::recording::{ApiEvent, Change, RecordedObject};
use serde_json::json;

const DEAD: &str = "dead-backend";
const RETIRED: &str = "retired-backend (openers)";
const REUSED: &str = "reused";
const LIVES: &str = "a pod listed there lives";
const UNPROVEN: &str = "a UID listed there is neither Retired nor Dead";
const NODES: &str = "the IP is a node's";
const OWN: &str = "a live pod of the Service claims the IP";
const CANDIDATE: &str = "a pod of the Service may hold the IP unpublished";
const ORDER: &str = "which claim of the IP is newer is unknown";

/// The address of the tests.
const X: &str = "10.244.1.5";

/// What the watches have shown.
struct Small(World);

impl Small {
    /// All watches have shown everything; there are no pods and no slices yet.
    fn new() -> Self {
        let node = |name: &str, ip: &str| {
            let addresses = json!([{"type": "InternalIP", "address": ip}]);
            json!({"metadata": {"name": name, "uid": name}, "status": {"addresses": addresses}})
        };
        let nodes = vec![node("node-a", "10.250.0.1"), node("node-b", "10.250.0.2")];
        Self(World::default()).after([
            lists(Kind::Node, nodes),
            lists(Kind::Service, vec![service()]),
            lists(Kind::Pod, vec![]),
            lists(Kind::EndpointSlice, vec![]),
        ])
    }

    /// The pod is listed at X.
    fn listing(pod: Value) -> Self {
        let listed = slice(&[endpoint(X, pod["metadata"]["uid"].as_str().expect("a UID"))]);
        Self::new().after([shows(pod), shows(listed)])
    }

    fn after(mut self, events: impl IntoIterator<Item = ApiEvent>) -> Self {
        events
            .into_iter()
            .for_each(|event| self.0.apply(Duration::ZERO, &event));
        self
    }

    /// The provable denial of `ns/s` at X:8080.
    fn prove(&self, now: Duration, protocol: Protocol) -> Result<Proof, &'static str> {
        let key = Key {
            service: "ns/s".into(),
            ip: X.parse().expect("an IP"),
            port: 8080,
            protocol,
        };
        super::prove(&self.0, &key, now)
    }

    /// The verdict as text; `perhaps` where a denial is allowed but not required.
    fn verdict(&self) -> String {
        match self.prove(Duration::ZERO, Protocol::Tcp) {
            Ok(proof) if proof.required => proof.shapes[0].to_string(),
            Ok(proof) => format!("perhaps {}", proof.shapes[0]),
            Err(why) => why.into(),
        }
    }
}

/// ADDED or MODIFIED.
fn shows(object: Value) -> ApiEvent {
    ApiEvent {
        kind: kind(&object),
        change: Change::Applied(RecordedObject::new(object)),
    }
}

/// DELETED.
fn deletes(object: Value) -> ApiEvent {
    ApiEvent {
        kind: kind(&object),
        change: Change::Deleted(RecordedObject::new(object)),
    }
}

/// The whole collection.
fn lists(kind: Kind, objects: Vec<Value>) -> ApiEvent {
    ApiEvent {
        kind,
        change: Change::Reset(objects.into_iter().map(RecordedObject::new).collect()),
    }
}

fn kind(object: &Value) -> Kind {
    object["kind"]
        .as_str()
        .expect("a kind")
        .parse()
        .expect("a known kind")
}

/// The object with a JSON merge patch.
fn but(mut object: Value, patch: &Value) -> Value {
    crate::object::merge(&mut object, patch);
    object
}

fn service() -> Value {
    json!({
        "kind": "Service", "metadata": {"namespace": "ns", "name": "s", "uid": "service"},
        "spec": {"clusterIP": "10.96.0.1", "selector": {"app": "s"}},
    })
}

fn endpoint(ip: &str, uid: &str) -> Value {
    json!({"addresses": [ip], "targetRef": {"kind": "Pod", "uid": uid}})
}

/// The one slice of `ns/s`, listing TCP and UDP 8080.
fn slice(endpoints: &[Value]) -> Value {
    json!({
        "kind": "EndpointSlice", "metadata": {"namespace": "ns", "name": "s-1", "labels": {
            "kubernetes.io/service-name": "s",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }},
        "addressType": "IPv4",
        "ports": [{"port": 8080, "protocol": "TCP"}, {"port": 8080, "protocol": "UDP"}],
        "endpoints": endpoints,
    })
}

/// Running on node-a, with the label that `ns/s` selects.
fn backend(uid: &str, ip: &str) -> Value {
    json!({
        "kind": "Pod", "metadata": {
            "namespace": "ns", "name": uid, "uid": uid, "labels": {"app": "s"},
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:phase": {}}}}],
        },
        "spec": {"nodeName": "node-a", "containers": [{"name": "c"}]},
        "status": {
            "phase": "Running",
            "podIPs": [{"ip": ip}],
            "conditions": [sandbox("True", "2026-01-01T00:00:00Z")],
            "containerStatuses": [{"state": {"running": {"startedAt": "2026-01-01T00:00:01Z"}}}],
        },
    })
}

/// Running in another namespace, on node-a.
fn stranger(uid: &str, ip: &str) -> Value {
    but(
        backend(uid, ip),
        &json!({"metadata": {"namespace": "other"}}),
    )
}

/// Finished, with the kubelet's report after it removed the sandbox.
fn dead(pod: Value) -> Value {
    let terminated = json!({"startedAt": "2026-01-01T00:00:01Z", "exitCode": 1});
    but(
        pod,
        &json!({"status": {
            "phase": "Failed", "conditions": [sandbox("False", "2026-01-01T00:01:00Z")],
            "containerStatuses": [{"state": {"terminated": terminated}}],
        }}),
    )
}

/// Finished, by the report of a writer other than the kubelet.
fn retired(pod: Value) -> Value {
    let mut pod = dead(pod);
    pod["metadata"]["managedFields"][0]["manager"] = "kube-controller-manager".into();
    pod
}

/// With a deletionTimestamp.
fn deleting(pod: Value) -> Value {
    but(
        pod,
        &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:02:00Z"}}),
    )
}

fn sandbox(status: &str, since: &str) -> Value {
    json!({"type": "PodReadyToStartContainers", "status": status, "lastTransitionTime": since})
}

/// The pod whose denial is asked for.
fn a() -> Value {
    backend("a", X)
}

/// Each verdict on X after these events, before which a slice lists the pod there.
fn verdicts<const N: usize>(rows: [(Value, Vec<ApiEvent>, &str); N]) {
    for (number, (pod, events, expected)) in rows.into_iter().enumerate() {
        assert_eq!(
            Small::listing(pod).after(events).verdict(),
            expected,
            "row {number}"
        );
    }
}

fn annotated(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

#[test]
fn a_terminal_phase_proves_death_only_with_all_of_its_conditions() {
    let kubelet = json!({"manager": "kubelet", "fieldsV1": {"f:status": {"f:phase": {}}}});
    let other = json!({"manager": "kubectl", "fieldsV1": {"f:status": {"f:phase": {}}}});
    let running = json!({"state": {"running": {"startedAt": "2026-01-01T00:00:01Z"}}});
    let restarting = json!({"state": {"waiting": {}}, "lastState": {"terminated": {}}});
    let waiting = json!({"state": {"waiting": {}}});
    let ended = dead(a())["status"]["containerStatuses"][0].clone();
    for (patch, expected) in [
        (json!({}), DEAD),
        (json!({"metadata": {"managedFields": []}}), RETIRED),
        (
            json!({"metadata": {"managedFields": [kubelet, other]}}),
            RETIRED,
        ),
        (json!({"status": {"conditions": []}}), RETIRED),
        (
            json!({"status": {"conditions": [sandbox("True", "2026-01-01T00:01:00Z")]}}),
            RETIRED,
        ),
        (json!({"status": {"containerStatuses": []}}), RETIRED),
        (json!({"status": {"containerStatuses": [waiting]}}), RETIRED),
        (
            json!({"status": {"initContainerStatuses": [running]}}),
            RETIRED,
        ),
        (
            json!({"status": {"ephemeralContainerStatuses": [restarting]}}),
            RETIRED,
        ),
        (
            json!({"status": {"containerStatuses": [ended, waiting]}}),
            DEAD,
        ),
        (json!({"spec": {"hostNetwork": true}}), NODES),
        (annotated("epguard.io/mode", "off"), "the pod opted out"),
        (annotated("kubernetes.io/config.mirror", "h"), LIVES),
    ] {
        assert_eq!(
            Small::listing(but(dead(a()), &patch)).verdict(),
            expected,
            "{patch}"
        );
    }
}

#[test]
fn a_uid_is_live_retired_or_dead_by_its_events() {
    let mirror = but(
        deleting(dead(a())),
        &annotated("kubernetes.io/config.mirror", "h"),
    );
    let vanished = || vec![lists(Kind::Pod, vec![])];
    verdicts([
        (a(), vec![], LIVES),
        (deleting(a()), vec![], LIVES),
        (retired(a()), vec![], RETIRED),
        (a(), vec![deletes(deleting(a()))], RETIRED),
        (a(), vec![deletes(deleting(dead(a())))], DEAD),
        (a(), vec![deletes(a())], UNPROVEN),
        (mirror.clone(), vec![deletes(mirror)], UNPROVEN),
        // What is missing in a list proves nothing, and a proven death stays.
        (a(), vanished(), UNPROVEN),
        (deleting(a()), vanished(), UNPROVEN),
        (dead(a()), vanished(), DEAD),
        (retired(a()), vec![shows(a())], LIVES),
        (dead(a()), vec![shows(a())], DEAD),
    ]);
}

#[test]
fn nodes_and_their_kinds_forbid_a_denial() {
    let node = |name: &str, more: &Value| {
        shows(but(
            json!({"kind": "Node", "metadata": {"name": name}, "spec": {}}),
            more,
        ))
    };
    let address = json!({"status": {"addresses": [{"address": X}]}});
    let labels = json!({"metadata": {"labels": {"type": "virtual-kubelet"}}});
    let taints = json!({"spec": {"taints": [{"key": "virtual-kubelet.io/provider"}]}});
    verdicts([
        (dead(a()), vec![node("node-c", &address)], NODES),
        (
            dead(a()),
            vec![node("node-a", &labels)],
            "a virtual kubelet's status proves nothing",
        ),
        (
            dead(a()),
            vec![node("node-a", &taints)],
            "a virtual kubelet's status proves nothing",
        ),
        (dead(a()), vec![node("node-a", &json!({}))], DEAD),
    ]);
}

#[test]
fn a_slice_that_lists_the_ip_for_another_pod_forbids_a_denial() {
    let second = |other: Value| {
        let others = json!({"metadata": {"name": "s-2"}, "ports": [{"port": 9090}]});
        vec![
            shows(stranger("live", "10.244.1.6")),
            shows(but(slice(&[other]), &others)),
        ]
    };
    let listed_now = vec![shows(dead(a())), shows(slice(&[endpoint(X, "a")]))];
    verdicts([
        (
            dead(a()),
            second(endpoint(X, "live")),
            "the Service lists the IP with a live UID",
        ),
        (
            dead(a()),
            second(endpoint(X, "nobody")),
            "the Service lists the IP with an unknown UID",
        ),
        (
            dead(a()),
            second(json!({"addresses": [X]})),
            "the Service lists the IP without a UID",
        ),
        (dead(a()), second(endpoint("10.244.1.6", "live")), DEAD),
        // Listed earlier.
        (backend("old", "10.244.1.6"), listed_now, LIVES),
    ]);
}

#[test]
fn a_denial_is_required_for_ten_minutes_after_its_last_listing_and_of_udp_for_dead_pods_alone() {
    for (minutes, required) in [(0, true), (9, true), (11, false)] {
        let proof = Small::listing(dead(a()))
            .after([shows(slice(&[]))])
            .prove(Duration::from_mins(minutes), Protocol::Tcp)
            .unwrap();
        assert_eq!(proof.required, required, "{minutes} {proof:?}");
    }
    for (pod, required) in [(dead(a()), true), (retired(a()), false)] {
        let proof = Small::listing(pod)
            .prove(Duration::ZERO, Protocol::Udp)
            .unwrap();
        assert_eq!(proof.required, required, "{proof:?}");
    }
}

#[test]
fn a_service_without_a_selector_means_the_pods_that_it_lists_and_their_successors() {
    let without_selector = || shows(but(service(), &json!({"spec": {"selector": null}})));
    let named = but(endpoint(X, "a"), &json!({"targetRef": {"name": "a"}}));
    let listed = |more: Vec<ApiEvent>| {
        let begin = vec![
            without_selector(),
            shows(slice(std::slice::from_ref(&named))),
        ];
        begin.into_iter().chain(more).collect()
    };
    let gone = || deletes(deleting(dead(a())));
    let successor = but(backend("b", X), &json!({"metadata": {"name": "a"}}));
    let mut pending = successor.clone();
    pending["status"] = json!({"phase": "Pending"});
    let no_longer = "the Service, without a selector, no longer lists it";
    verdicts([
        (dead(a()), listed(vec![]), DEAD),
        (dead(a()), listed(vec![gone(), shows(pending)]), CANDIDATE),
        (dead(a()), listed(vec![gone(), shows(successor)]), OWN),
        (dead(a()), vec![without_selector()], DEAD),
        (
            dead(a()),
            vec![without_selector(), shows(stranger("b", X))],
            REUSED,
        ),
        (
            dead(a()),
            vec![
                without_selector(),
                shows(stranger("b", X)),
                shows(slice(&[])),
            ],
            no_longer,
        ),
    ]);
}

#[test]
fn a_service_needs_a_vip_of_the_ips_family_and_watches_that_run() {
    let with = |spec: Value| vec![shows(but(service(), &json!({"spec": spec})))];
    let event = |change| ApiEvent {
        kind: Kind::EndpointSlice,
        change,
    };
    let opted_out = but(service(), &annotated("epguard.io/mode", "off"));
    let both = json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1", "10.96.0.1"]});
    let perhaps = &format!("perhaps {DEAD}");
    verdicts([
        (
            dead(a()),
            with(json!({"clusterIP": "None"})),
            "the Service has no VIP",
        ),
        (
            dead(a()),
            vec![deletes(service())],
            "the Service does not exist",
        ),
        (dead(a()), with(json!({"clusterIP": "fd00::1"})), perhaps),
        (dead(a()), with(both), DEAD),
        (dead(a()), vec![shows(opted_out)], "the Service opted out"),
        (dead(a()), vec![event(Change::Closed)], perhaps),
        (
            dead(a()),
            vec![event(Change::Closed), event(Change::Resumed)],
            DEAD,
        ),
    ]);
}

#[test]
fn another_pod_that_claims_the_ip_makes_it_reused() {
    let networks = json!([{"name": "net1", "ips": [X]}]).to_string();
    let multus = but(
        stranger("b", "10.244.1.6"),
        &annotated("k8s.v1.cni.cncf.io/network-status", &networks),
    );
    let b = || shows(stranger("b", X));
    let opted_out = but(stranger("b", X), &annotated("epguard.io/mode", "off"));
    verdicts([
        (dead(a()), vec![b()], REUSED),
        (retired(a()), vec![b()], "reused (openers)"),
        (dead(a()), vec![shows(multus)], REUSED),
        (dead(a()), vec![shows(backend("b", X))], OWN),
        (
            dead(a()),
            vec![b(), shows(stranger("c", X))],
            "two live pods claim the IP",
        ),
        (
            dead(a()),
            vec![shows(opted_out)],
            "the pod that claims the IP opted out",
        ),
        // Across lists the order is only perhaps known.
        (
            a(),
            vec![lists(Kind::Pod, vec![retired(a()), stranger("b", X)])],
            "perhaps reused (openers)",
        ),
    ]);
    let world = Small::listing(dead(a())).after([b()]);
    let owner = world.prove(Duration::ZERO, Protocol::Tcp).unwrap().owner;
    assert_eq!(owner.as_deref(), Some("b"));
}

#[test]
fn a_claim_that_is_not_newer_than_a_retired_ones_is_no_reuse() {
    let listed = || shows(slice(&[endpoint(X, "a")]));
    let at_once = || lists(Kind::Pod, vec![retired(a()), stranger("b", X)]);
    for (events, expected) in [
        (vec![at_once(), listed()], ORDER),
        (vec![at_once(), listed(), shows(dead(a()))], REUSED),
        (
            vec![shows(stranger("b", X)), shows(retired(a())), listed()],
            ORDER,
        ),
    ] {
        assert_eq!(Small::new().after(events).verdict(), expected);
    }
}

#[test]
fn a_selected_pod_may_hold_an_ip_that_it_does_not_publish() {
    let restarted = |status: &str, sandbox_since: &str, started: Option<&str>| {
        let time = |seconds: &str| format!("2026-01-01T00:00:{seconds}Z");
        let containers = json!([{"state": {"running": {"startedAt": started.map(time)}}}]);
        json!({"status": {"conditions": [sandbox(status, &time(sandbox_since))], "containerStatuses": containers}})
    };
    let unpublished = |patch: &Value| but(json!({"status": {"podIPs": []}}), patch);
    for (patch, expected) in [
        (unpublished(&json!({})), CANDIDATE),
        (
            unpublished(&json!({"spec": {"nodeName": "node-b"}})),
            CANDIDATE,
        ),
        (unpublished(&json!({"spec": {"nodeName": ""}})), DEAD),
        (unpublished(&json!({"spec": {"hostNetwork": true}})), DEAD),
        (unpublished(&json!({"status": {"phase": "Failed"}})), DEAD),
        (
            unpublished(&json!({"metadata": {"namespace": "other"}})),
            DEAD,
        ),
        (restarted("False", "00", Some("01")), CANDIDATE),
        (restarted("True", "09", Some("01")), CANDIDATE),
        (restarted("True", "01", Some("01")), DEAD),
        (restarted("True", "01", None), "perhaps dead-backend"),
    ] {
        let candidate = but(backend("b", "10.244.1.6"), &patch);
        assert_eq!(
            Small::listing(dead(a()))
                .after([shows(candidate)])
                .verdict(),
            expected,
            "{patch}"
        );
    }
}

#[test]
fn where_the_selector_proves_nothing_all_pods_of_the_namespaces_that_slices_name_are_the_services_own()
 {
    let controller = "endpointslice-controller.k8s.io";
    let unselected = |pod: Value| but(pod, &json!({"metadata": {"labels": {"app": null}}}));
    let elsewhere = json!({"metadata": {"namespace": "bank"}});
    for (listed, writer, holder, expected) in [
        ("x", controller, backend("b", X), OWN),
        ("y", controller, backend("b", X), REUSED),
        ("y", "another", backend("b", X), OWN),
        ("x", controller, but(backend("b", X), &elsewhere), REUSED),
        ("y", "another", but(backend("b", X), &elsewhere), REUSED),
    ] {
        let labels = json!({"endpointslice.kubernetes.io/managed-by": writer});
        let slice = slice(&[endpoint(X, "a"), endpoint("10.244.1.7", listed)]);
        let world = Small::listing(dead(a())).after([
            shows(unselected(backend("x", "10.244.1.7"))),
            shows(backend("y", "10.244.1.8")),
            shows(but(slice, &json!({"metadata": {"labels": labels}}))),
            shows(unselected(holder)),
        ]);
        assert_eq!(world.verdict(), expected, "{listed} {writer}");
    }
}

#[test]
fn a_stranger_that_shows_the_ip_is_denied_while_a_selected_pod_starts() {
    let starting = but(
        backend("c", "10.244.1.6"),
        &json!({"status": {"podIPs": []}}),
    );
    let world = Small::listing(dead(a())).after([shows(starting), shows(stranger("b", X))]);
    assert_eq!(world.verdict(), REUSED);
}
