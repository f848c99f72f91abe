//! The API objects of the story, as a Kubernetes 1.36 cluster wrote them (lab/traces/d-job-ip-reuse), with telling names.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::api::{ObjectRef, Store};

const STREAMS: [&str; 4] = [
    include_str!("../../traces/d-job-ip-reuse/nodes.jsonl"),
    include_str!("../../traces/d-job-ip-reuse/pods.jsonl"),
    include_str!("../../traces/d-job-ip-reuse/services.jsonl"),
    include_str!("../../traces/d-job-ip-reuse/endpointslices.jsonl"),
];

/// Who of the recording appears, each on its own; the rest of that cluster does not.
const CAST: [&str; 7] = [
    "Node /node-a",
    "Pod rd/ok-h8tsd",
    "Pod rd2/n3",
    "Service rd/sp",
    "Service rd2/s",
    "EndpointSlice rd/sp-w79hg",
    "EndpointSlice rd2/s-rdbnd",
];

/// The recording's names, and what they are called here.
const NAMES: [(&str, &str); 15] = [
    ("rd", "domain-a"),
    ("ok", "report"),
    ("ok-", "report-"),
    ("ok-h8tsd", "report-h8tsd"),
    ("j", "report"),
    ("sp", "report"),
    ("sp-", "report-"),
    ("sp-w79hg", "report-w79hg"),
    ("rd2", "domain-b"),
    ("n", "shop"),
    ("n3", "shop"),
    ("s", "shop"),
    ("s-", "shop-"),
    ("s-rdbnd", "shop-rdbnd"),
    ("10.250.0.11", "192.168.250.11"),
];

/// The cluster IP of A's Service: that of the recording's other Service for the same pods, as this one had none there.
pub const CLUSTER_IP: &str = "10.96.186.76";
/// The port by which A's Service is reached from outside.
pub const NODE_PORT: u16 = 30080;

/// That of the recording's other Job pod, which does not appear.
const RERUN_UID: &str = "145c3e45-83c2-43e7-82af-16a616c6f5e0";

/// Objects in the order in which they were recorded, to be shown bit by bit.
#[derive(Debug)]
pub struct Recording {
    /// The next one last.
    coming: Vec<(f64, Value)>,
}

impl Recording {
    /// Reads the part of the recording that the story needs.
    pub fn read() -> Result<Self> {
        let mut coming: Vec<_> = events()?
            .into_iter()
            .filter(|(_, object)| CAST.contains(&&*title(object)))
            .collect();
        coming.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let coming = coming
            .into_iter()
            .rev()
            .map(|(at, object)| (at, adapt(object)))
            .collect();
        Ok(Self { coming })
    }

    /// Shows in the API what was recorded up to that time, in milliseconds.
    pub fn play(&mut self, until: f64, store: &Store) -> Result<()> {
        while let Some((_, object)) = self.coming.pop_if(|(at, _)| *at <= until) {
            show(store, object)?;
        }
        Ok(())
    }
}

/// A running pod `namespace/client` at this address, of which the recording has one: n1 at 10.244.1.12, n2 at 10.244.1.13.
pub fn client(namespace: &str, address: &str) -> Result<Value> {
    let recorded = events()?
        .into_iter()
        .rev()
        .find(|(_, object)| object["status"]["podIP"] == address);
    let (_, mut pod) = recorded.with_context(|| format!("the recording has no pod at {address}"))?;
    rename(&mut pod);
    let meta = &mut pod["metadata"];
    meta["namespace"] = namespace.into();
    meta["name"] = "client".into();
    meta["labels"] = json!({"app": "client"});
    Ok(pod)
}

/// A's pod once more, at another address, and its Service's slice with that endpoint alone: both as when A's pod ran.
pub fn rerun(name: &str, address: Ipv4Addr) -> Result<[Value; 2]> {
    let mut pod = adapt(first("Pod rd/ok-h8tsd", |pod| {
        pod["status"]["phase"] == "Running"
    })?);
    let mut slice = adapt(first("EndpointSlice rd/sp-w79hg", |slice| {
        let endpoints = slice["endpoints"].as_array().into_iter().flatten();
        endpoints.count() == 2
    })?);
    let address = address.to_string();
    let meta = &mut pod["metadata"];
    meta["name"] = name.into();
    meta["uid"] = RERUN_UID.into();
    let status = &mut pod["status"];
    status["podIP"] = (*address).into();
    status["podIPs"] = json!([{"ip": address}]);
    let endpoint = &mut slice["endpoints"][0];
    endpoint["addresses"] = json!([address]);
    endpoint["targetRef"]["name"] = name.into();
    endpoint["targetRef"]["uid"] = RERUN_UID.into();
    Ok([pod, slice])
}

fn first(wanted: &str, is_it: impl Fn(&Value) -> bool) -> Result<Value> {
    let recorded = events()?.into_iter().map(|(_, object)| object);
    let found = recorded.filter(|object| title(object) == wanted).find(is_it);
    found.with_context(|| format!("the recording has no such {wanted}"))
}

/// Replaces the object in the API.
pub fn show(store: &Store, mut object: Value) -> Result<()> {
    let id = ObjectRef::of(&object)?;
    if !id.namespace.is_empty() {
        store.ensure_namespace(&id.namespace)?;
    }
    let old = store.get(&id).unwrap_or_default();
    let meta = object["metadata"]
        .as_object_mut()
        .context("an object without metadata")?;
    // The store merges, and has resourceVersions of its own.
    for gone in old["metadata"].as_object().into_iter().flatten() {
        meta.entry(gone.0).or_insert(Value::Null);
    }
    meta.remove("resourceVersion");
    store.apply(object).with_context(|| id.to_string())?;
    Ok(())
}

fn events() -> Result<Vec<(f64, Value)>> {
    let mut events = Vec::new();
    for line in STREAMS.iter().flat_map(|stream| stream.lines()) {
        let mut line: Value = serde_json::from_str(line).context("the recording is damaged")?;
        let at = line["t_ms"].as_f64().context("an event without a time")?;
        let event = &mut line["event"];
        if matches!(event["type"].as_str(), Some("ADDED" | "MODIFIED")) {
            events.push((at, event["object"].take()));
        }
    }
    Ok(events)
}

fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let meta = &object["metadata"];
    format!(
        "{} {}/{}",
        text(&object["kind"]),
        text(&meta["namespace"]),
        text(&meta["name"])
    )
}

fn adapt(mut object: Value) -> Value {
    let title = title(&object);
    if let Some(endpoints) = object.pointer_mut("/endpoints").and_then(Value::as_array_mut) {
        endpoints.retain(|endpoint| {
            let pod = &endpoint["targetRef"]["name"];
            pod == "ok-h8tsd" || pod == "n3"
        });
    }
    if title == "Service rd/sp" {
        let spec = &mut object["spec"];
        spec["type"] = "NodePort".into();
        spec["clusterIP"] = CLUSTER_IP.into();
        spec["clusterIPs"] = json!([CLUSTER_IP]);
        spec["externalTrafficPolicy"] = "Cluster".into();
        spec["ports"][0]["nodePort"] = NODE_PORT.into();
    }
    if let Some(labels) = object
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
    {
        labels.remove("service.kubernetes.io/headless");
    }
    rename(&mut object);
    object
}

fn rename(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((_, name)) = NAMES.iter().find(|(recorded, _)| recorded == text) {
                (*name).clone_into(text);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(rename),
        Value::Object(fields) => fields.values_mut().for_each(rename),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Kind;

    fn at(until: f64) -> Store {
        let store = Store::new();
        Recording::read().unwrap().play(until, &store).unwrap();
        store
    }

    #[test]
    fn the_finished_pod_stays_a_ready_endpoint_after_its_address_belongs_to_another() {
        let store = at(9000.0);
        let a = store.get(&ObjectRef::pod("domain-a", "report-h8tsd")).unwrap();
        let b = store.get(&ObjectRef::pod("domain-b", "shop")).unwrap();
        assert_eq!(
            (&a["status"]["phase"], &b["status"]["phase"]),
            (&json!("Succeeded"), &json!("Running"))
        );
        assert_eq!(a["status"]["podIP"], b["status"]["podIP"]);
        let slices = store.list(Kind::EndpointSlice);
        let of_a = slices
            .iter()
            .find(|slice| slice["metadata"]["namespace"] == "domain-a")
            .unwrap();
        let endpoint = &of_a["endpoints"][0];
        assert_eq!(endpoint["targetRef"]["uid"], a["metadata"]["uid"]);
        assert_eq!(
            endpoint["conditions"],
            json!({"ready": true, "serving": false, "terminating": false})
        );
    }

    #[test]
    fn what_an_object_no_longer_has_disappears() {
        let finalizers = |until| {
            let pod = at(until)
                .get(&ObjectRef::pod("domain-a", "report-h8tsd"))
                .unwrap();
            pod["metadata"]["finalizers"].is_array()
        };
        assert!(finalizers(7100.0));
        assert!(!finalizers(9000.0));
    }

    #[test]
    fn the_pod_of_the_rerun_is_another_one_and_alone_in_the_slice() {
        let [pod, slice] = rerun("report-rerun", Ipv4Addr::new(10, 244, 1, 14)).unwrap();
        assert_eq!(title(&pod), "Pod domain-a/report-rerun");
        assert_eq!(pod["metadata"]["labels"]["app"], "report");
        assert_eq!(
            (&pod["status"]["phase"], &pod["status"]["podIP"]),
            (&json!("Running"), &json!("10.244.1.14"))
        );
        let endpoints = slice["endpoints"].as_array().unwrap();
        assert_eq!(endpoints.len(), 1);
        assert_eq!(endpoints[0]["targetRef"]["uid"], pod["metadata"]["uid"]);
        assert_eq!(endpoints[0]["addresses"], json!(["10.244.1.14"]));
    }

    #[test]
    fn clients_belong_to_no_service() {
        let pod = client("domain-a", "10.244.1.12").unwrap();
        assert_eq!(title(&pod), "Pod domain-a/client");
        assert_eq!(pod["metadata"]["labels"], json!({"app": "client"}));
        assert_eq!(pod["status"]["phase"], "Running");
    }
}
