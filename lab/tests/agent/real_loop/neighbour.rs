//! What the owner of another namespace may write, over and over, so that much of it waits to be
//! judged.

use super::{NODE, read};
use epguard_core::facts::{Change, Fact};
use serde_json::{Value, json};
use std::ops::Range;

/// What the neighbour has, and what it writes then in turns.
pub struct Neighbour {
    /// What it does, in words.
    pub name: &'static str,
    /// Its objects.
    pub objects: Vec<Fact>,
    /// One write after another, from the first again after the last.
    pub writes: Vec<Fact>,
}

/// Every neighbour. Sizes are a tenth of the worst for the `quick` ones.
pub fn all(quick: bool) -> Vec<Neighbour> {
    let part = if quick { 10 } else { 1 };
    vec![
        Neighbour {
            name: "nothing",
            objects: vec![],
            writes: vec![],
        },
        large_slices(80 / part),
        addresses(256 / part),
        ports_of_a_dead_pod(4_000 / part),
        rivals(66 / part),
        pending_pod(1_000 / part, 200 / part),
        left_out_slice(312 / part),
        listed_finished_pod(40 / part),
        unproving_selector(40 / part),
        stale_services(1_500 / part),
    ]
}

/// Slices of 1,000 endpoints, patched one after another.
fn large_slices(count: usize) -> Neighbour {
    let slices: Vec<Fact> = (0..count)
        .map(|number| {
            slice(
                &format!("fat-{number}"),
                "fat",
                1_000 * number..1_000 * (number + 1),
                0..1,
            )
        })
        .collect();
    let again = (0..count).map(|number| {
        slice(
            &format!("fat-{number}"),
            "fat",
            1_000 * number..1_000 * (number + 1),
            0..2,
        )
    });
    let writes = again.chain(slices.clone()).collect();
    let objects = std::iter::once(service("fat", 0, &[], 1, "fat"))
        .chain(slices)
        .collect();
    Neighbour {
        name: "large slices, patched",
        objects,
        writes,
    }
}

/// External IPs of a Service, replaced.
fn addresses(count: usize) -> Neighbour {
    let patched = |round: usize| {
        let ips: Vec<String> = (0..count).map(|number| ip(30 + round, number)).collect();
        service("wide", 0, &ips, 1, "wide")
    };
    Neighbour {
        name: "external IPs, replaced",
        objects: vec![patched(0)],
        writes: (1..20).map(patched).collect(),
    }
}

/// A Service with so many ports at the IP of a dead pod, whose slice comes and goes, and the pod's
/// events.
fn ports_of_a_dead_pod(ports: usize) -> Neighbour {
    let listed = || slice("ports", "ports", 0..1, 0..ports);
    let Fact::Slice(Change::Applied(object)) = listed() else {
        unreachable!("a slice")
    };
    let gone = Fact::Slice(Change::Deleted(object));
    let objects = vec![
        service("ports", 0, &[], 1, "ports"),
        pod(0, "ports", "Running"),
        listed(),
        pod(0, "ports", "Failed"),
    ];
    let event = |label| pod_with(0, label, "Failed");
    let writes = vec![
        gone,
        event("one"),
        event("two"),
        listed(),
        event("one"),
        event("two"),
    ];
    Neighbour {
        name: "many ports at the IP of a dead pod",
        objects,
        writes,
    }
}

/// Services that share external IPs, of which one is patched. They have as many VIPs as there is
/// room for.
fn rivals(count: usize) -> Neighbour {
    let ips: Vec<String> = (0..45).map(|number| ip(31, number)).collect();
    let shared =
        |number: usize, ports| service(&format!("rival-{number}"), number, &ips, ports, "rival");
    let mut objects: Vec<Fact> = (0..count).map(|number| shared(number, 2)).collect();
    objects.extend(stale(count, "rival"));
    Neighbour {
        name: "Services that share external IPs",
        objects,
        writes: vec![shared(0, 1), shared(0, 2)],
    }
}

/// A pod without an IP beside Services with denials and other pods of many labels.
fn pending_pod(services: usize, pods: usize) -> Neighbour {
    let mut objects: Vec<Fact> = (0..services)
        .map(|number| service(&format!("held-{number}"), number, &[], 1, "held"))
        .collect();
    objects.extend(stale(services, "held"));
    objects.extend((0..pods).map(|number| pending(1_000 + number, "other")));
    let writes = vec![pending(5_000, "held"), pending(5_000, "other")];
    Neighbour {
        name: "a pod without an IP, whose labels change",
        objects,
        writes,
    }
}

/// A slice that is too large to be taken in, and that is patched.
fn left_out_slice(thousands: usize) -> Neighbour {
    let mut objects = vec![service("left", 0, &[], 1, "left")];
    objects.extend((0..8).map(|number| {
        slice(
            &format!("left-{number}"),
            "left",
            1_000 * number..1_000 * (number + 1),
            0..thousands / 8,
        )
    }));
    let large = |ports| slice("left-out", "left", 0..1_000, 0..ports);
    Neighbour {
        name: "a slice that is left out",
        objects,
        writes: vec![large(1_000), large(1_001)],
    }
}

/// Slices that list a finished pod of the agent's node on many ports, and the pod's events.
fn listed_finished_pod(slices: usize) -> Neighbour {
    let mut objects = vec![service("own", 0, &[], 1, "own"), own_pod("one", "Running")];
    objects.extend((0..slices).map(|number| {
        slice(
            &format!("own-{number}"),
            "own",
            0..1,
            8_000 * number % 60_000..8_000 * number % 60_000 + 800,
        )
    }));
    objects.push(own_pod("one", "Failed"));
    Neighbour {
        name: "slices of a finished pod of this node",
        objects,
        writes: vec![own_pod("two", "Failed"), own_pod("one", "Failed")],
    }
}

/// Slices that list pods which the Service does not select, and their events.
fn unproving_selector(slices: usize) -> Neighbour {
    let mut objects = vec![service("unselected", 0, &[], 1, "none")];
    objects.extend((0..slices).map(|number| {
        slice(
            &format!("un-{number}"),
            "unselected",
            1_000 * number..1_000 * (number + 1),
            0..1,
        )
    }));
    let writes = vec![pod(0, "one", "Running"), pod(0, "none", "Running")];
    Neighbour {
        name: "pods that their Service does not select",
        objects,
        writes,
    }
}

/// Services with denials, and one that is left out and patched, so that all of these are judged
/// again.
fn stale_services(count: usize) -> Neighbour {
    let mut objects: Vec<Fact> = (0..count)
        .map(|number| service(&format!("stale-{number}"), number, &[], 1, "stale"))
        .collect();
    objects.extend(stale(count, "stale"));
    let ips: Vec<String> = (0..2_000).map(|number| ip(32, number)).collect();
    let large = |ports| service("large", count, &ips, ports, "large");
    Neighbour {
        name: "a Service that is left out, beside many with denials",
        objects,
        writes: vec![large(40), large(41)],
    }
}

/// So many Services called `name-0`, ... list a dead pod each.
fn stale(count: usize, name: &str) -> Vec<Fact> {
    let mut facts = Vec::new();
    for number in 0..count {
        facts.push(pod(number, name, "Running"));
        facts.push(slice(
            &format!("{name}-{number}"),
            &format!("{name}-{number}"),
            number..number + 1,
            0..1,
        ));
        facts.push(pod(number, name, "Failed"));
    }
    facts
}

fn service(name: &str, number: usize, external: &[String], ports: usize, app: &str) -> Fact {
    let ports = (1..=ports).map(|port| json!({"name": format!("p{port}"), "port": 80 + port}));
    let cluster_ip = ip(50, number);
    Fact::Service(Change::Applied(read(&json!({
        "metadata": {"namespace": "tenant", "name": name, "uid": format!("aaaaaaaa-0000-4000-9000-{number:012x}")},
        "spec": {
            "clusterIP": cluster_ip, "clusterIPs": [cluster_ip], "selector": {"app": app},
            "ports": ports.collect::<Vec<Value>>(), "externalIPs": external,
        },
    }))))
}

fn slice(name: &str, service: &str, pods: Range<usize>, ports: Range<usize>) -> Fact {
    let endpoints = pods.map(|number| {
        let target = json!({"kind": "Pod", "namespace": "tenant", "name": format!("pod-{number}"), "uid": uid(number)});
        json!({"addresses": [ip(60, number)], "conditions": {"ready": true}, "targetRef": target})
    });
    let ports =
        ports.map(|port| json!({"name": format!("p{}", port + 1), "port": 1 + port % 65_535}));
    Fact::Slice(Change::Applied(read(&json!({
        "metadata": {"namespace": "tenant", "name": name, "labels": {
                "kubernetes.io/service-name": service,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            }},
        "addressType": "IPv4",
        "endpoints": endpoints.collect::<Vec<Value>>(),
        "ports": ports.collect::<Vec<Value>>(),
    }))))
}

/// A pod of another node.
fn pod(number: usize, app: &str, phase: &str) -> Fact {
    pod_with(number, app, phase)
}

fn pod_with(number: usize, app: &str, phase: &str) -> Fact {
    Fact::Pod(Change::Applied(read(&object(number, "node-b", app, phase))))
}

/// The first pod, on the agent's node.
fn own_pod(app: &str, phase: &str) -> Fact {
    Fact::Pod(Change::Applied(read(&object(0, NODE, app, phase))))
}

/// A pod that shows no IP yet, with as many labels as are kept.
fn pending(number: usize, app: &str) -> Fact {
    let mut pod = object(number, "node-b", app, "Pending");
    pod["status"] = json!({"phase": "Pending"});
    for label in 0..250 {
        pod["metadata"]["labels"][format!("label-{label}")] = "x".into();
    }
    Fact::Pod(Change::Applied(read(&pod)))
}

fn object(number: usize, node: &str, app: &str, phase: &str) -> Value {
    let (ready, state) = if phase == "Failed" {
        ("False", "terminated")
    } else {
        ("True", "running")
    };
    json!({
        "metadata": {
            "namespace": "tenant", "name": format!("pod-{number}"), "uid": uid(number), "labels": {"app": app},
            "managedFields": [{
                "manager": "kubelet", "operation": "Update", "subresource": "status",
                "fieldsV1": {"f:status": {
                    "f:phase": {}, "f:podIP": {}, "f:conditions": {"k:{\"type\":\"PodReadyToStartContainers\"}": {}},
                }},
            }],
        },
        "spec": {"nodeName": node},
        "status": {
            "phase": phase, "podIPs": [{"ip": ip(60, number)}],
            "conditions": [{"type": "PodReadyToStartContainers", "status": ready}],
            "containerStatuses": [{"name": "c", "state": {state: {}}}],
        },
    })
}

fn uid(number: usize) -> String {
    format!("aaaaaaaa-1111-4000-9000-{number:012x}")
}

fn ip(first: usize, number: usize) -> String {
    format!(
        "{first}.{}.{}.{}",
        number / 65_536,
        number / 256 % 256,
        number % 256
    )
}
