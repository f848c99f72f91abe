//! The objects of the API, made from those of a recorded cluster, so that they are as large as a
//! kubelet's.

use super::size::{self, Size};
use epguard_lab::api::set_dead_status;
use serde_json::{Value, json};
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

/// What a recorded object calls itself, which is replaced.
const POD: [&str; 5] = [
    "web-578bbb9668-bfc57",
    "1a6dc83f-6c56-4cd2-bacd-434db354bb78",
    "10.244.2.3",
    "10.250.0.12",
    "web-578bbb9668",
];

/// What a pod does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Bound, without an IP.
    Pending,
    Running,
    /// Deleted, and still running.
    Terminating,
    /// All containers have ended, and the network is gone.
    Ended,
}

/// A pod by its number and Service.
#[derive(Clone, Copy)]
pub(crate) struct Pod {
    pub(crate) number: u32,
    pub(crate) service: u32,
}

/// Recorded objects as text.
pub(crate) struct Objects {
    size: Size,
    pod: String,
    node: Value,
    service: Value,
    slice: Value,
}

impl Objects {
    pub(crate) fn new(size: Size) -> Self {
        Self {
            size,
            pod: recorded("pods", "web-578bbb9668-bfc57").to_string(),
            node: recorded("nodes", "node-b"),
            service: recorded("services", "web"),
            slice: recorded("endpointslices", "web-"),
        }
    }

    /// Their slices.
    pub(crate) fn slices(&self) -> impl Iterator<Item = Value> {
        (0..self.size.services)
            .flat_map(|service| {
                (0..)
                    .zip(self.size.slices_of(service))
                    .map(move |(index, pods)| (service, index, pods))
            })
            .map(|(service, index, pods)| {
                let pods: Vec<_> = pods.into_iter().map(|pod| (pod, State::Running)).collect();
                self.slice(service, index, &pods)
            })
    }

    /// All pods of the beginning, which run.
    pub(crate) fn pods(&self) -> impl Iterator<Item = Value> {
        (0..self.size.pods).map(|number| self.pod(self.own(number), State::Running))
    }

    /// A pod of the beginning.
    pub(crate) fn own(&self, number: u32) -> Pod {
        Pod {
            number,
            service: self.size.service_of(number),
        }
    }

    pub(crate) fn pod(&self, pod: Pod, state: State) -> Value {
        let Pod { number, service } = pod;
        let ip = self.size.ip_of(number).to_string();
        let app = size::app(service);
        let own = [
            name(pod),
            uid(1, number),
            ip,
            "192.168.0.1".into(),
            format!("{app}-5d9"),
        ];
        let replaced = POD.iter().zip(own);
        let text = replaced.fold(self.pod.clone(), |text, (from, to)| text.replace(from, &to));
        let mut pod: Value = serde_json::from_str(&text).unwrap();
        let meta = &mut pod["metadata"];
        meta["namespace"] = size::namespace(service).into();
        meta["labels"]["app"] = app.into();
        pod["spec"]["nodeName"] = size::node_name(self.size.node_of(number)).into();
        set(&mut pod, state);
        pod
    }

    pub(crate) fn node(&self, node: u32) -> Value {
        let name = size::node_name(node);
        let range = size::range(node);
        let mut object = self.node.clone();
        object["metadata"]["name"] = name.as_str().into();
        // `World` has made the first one; the API server gives each its UID.
        object["metadata"].as_object_mut().unwrap().remove("uid");
        object["metadata"]["labels"]["kubernetes.io/hostname"] = name.into();
        object["spec"]["podCIDR"] = range.as_str().into();
        object["spec"]["podCIDRs"] = json!([range]);
        let [.., high, low] = (node + 1).to_be_bytes();
        let own = Ipv4Addr::new(192, 168, high, low);
        object["status"]["addresses"] = json!([{"type": "InternalIP", "address": own}]);
        object["status"]["nodeInfo"]["bootID"] = uid(3, node).into();
        object
    }

    pub(crate) fn service(&self, service: u32) -> Value {
        let app = size::app(service);
        let vip = size::vip(service);
        let mut object = self.service.clone();
        object["metadata"]["name"] = app.as_str().into();
        object["metadata"]["namespace"] = size::namespace(service).into();
        object["metadata"]["uid"] = uid(4, service).into();
        object["spec"]["clusterIP"] = vip.to_string().into();
        object["spec"]["clusterIPs"] = json!([vip]);
        object["spec"]["selector"] = json!({"app": app});
        object
    }

    /// A slice of a Service. Each pod is ready, or terminates.
    pub(crate) fn slice(&self, service: u32, index: usize, pods: &[(u32, State)]) -> Value {
        let app = size::app(service);
        let number = service * 100 + u32::try_from(index).unwrap();
        let mut object = self.slice.clone();
        let meta = &mut object["metadata"];
        meta["name"] = format!("{app}-{index}").into();
        meta["generateName"] = format!("{app}-").into();
        meta["namespace"] = size::namespace(service).into();
        meta["uid"] = uid(5, number).into();
        meta["labels"]["kubernetes.io/service-name"] = app.as_str().into();
        meta["ownerReferences"][0]["name"] = app.into();
        meta["ownerReferences"][0]["uid"] = uid(4, service).into();
        let endpoints = pods.iter().map(|(number, state)| {
            let pod = Pod {
                number: *number,
                service,
            };
            self.endpoint(pod, *state)
        });
        object["endpoints"] = endpoints.collect();
        object
    }

    fn endpoint(&self, pod: Pod, state: State) -> Value {
        let ready = state == State::Running;
        json!({
            "addresses": [self.size.ip_of(pod.number)],
            "conditions": {"ready": ready, "serving": true, "terminating": !ready},
            "nodeName": size::node_name(self.size.node_of(pod.number)),
            "targetRef": {"kind": "Pod", "namespace": size::namespace(pod.service), "name": name(pod),
                "uid": uid(1, pod.number)},
        })
    }
}

pub(crate) fn name(Pod { number, service }: Pod) -> String {
    format!("{}-5d9-{number:06}", size::app(service))
}

fn set(pod: &mut Value, state: State) {
    let time = pod["metadata"]["creationTimestamp"].clone();
    match state {
        State::Running => {}
        State::Pending => {
            pod["status"] = json!({"phase": "Pending", "qosClass": "BestEffort"});
        }
        State::Terminating => {
            pod["metadata"]["deletionTimestamp"] = time;
            pod["metadata"]["deletionGracePeriodSeconds"] = 20.into();
        }
        State::Ended => {
            set_dead_status(pod);
            written_by_the_kubelet(pod);
        }
    }
}

/// The API server keeps the field managers of an object that shows others than it has; else its
/// writer would own the phase, which proves no death.
fn written_by_the_kubelet(pod: &mut Value) {
    let managers = pod["metadata"]["managedFields"].as_array_mut().unwrap();
    let kubelet = managers
        .iter_mut()
        .find(|entry| entry["manager"] == "kubelet")
        .unwrap();
    kubelet["time"] = "2026-11-21T02:00:00Z".into();
}

fn uid(kind: u32, number: u32) -> String {
    format!("{kind:08x}-0000-4000-8000-{number:012x}")
}

/// The last state of a recorded object whose name begins so, while its pod is running.
fn recorded(stream: &str, name: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("traces/t-drain/{stream}.jsonl"));
    let text = fs::read_to_string(file).unwrap();
    let events = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut objects = events.map(|mut line| line["event"]["object"].take());
    let fits = |object: &Value| {
        let meta = &object["metadata"];
        let is_named = meta["name"]
            .as_str()
            .is_some_and(|own| own.starts_with(name));
        let runs = object["kind"] != "Pod"
            || !object["status"]["containerStatuses"][0]["state"]["running"].is_null();
        is_named && runs && meta["deletionTimestamp"].is_null()
    };
    objects.rfind(fits).unwrap()
}
