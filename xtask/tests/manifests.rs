//! The manifests in `deploy/`, checked without a cluster.
#![expect(
    clippy::unwrap_used,
    reason = "all of this file is tests; clippy only knows the marked functions"
)]

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Container, Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Every document of the manifest, in its order.
fn documents() -> Vec<Value> {
    serde_saphyr::from_multiple(include_str!("../../deploy/epguard.yaml")).unwrap()
}

/// The only object of its kind, which must be written so that no field is lost in its type: a misspelt
/// one would be.
fn only<T: DeserializeOwned + Serialize>(kind: &str) -> T {
    let found: Vec<Value> = documents()
        .into_iter()
        .filter(|document| document["kind"] == kind)
        .collect();
    assert_eq!(found.len(), 1, "objects of kind {kind}");
    let object: T = serde_json::from_value(found[0].clone()).unwrap();
    assert_eq!(
        serde_json::to_value(&object).unwrap(),
        found[0],
        "a field of {kind} is not one of the API's"
    );
    object
}

fn agent(daemon_set: DaemonSet) -> Container {
    daemon_set
        .spec
        .unwrap()
        .template
        .spec
        .unwrap()
        .containers
        .remove(0)
}

#[test]
fn every_object_is_one_the_api_would_take_and_the_namespace_comes_first() {
    let kinds: Vec<Value> = documents()
        .iter()
        .map(|document| document["kind"].clone())
        .collect();
    assert_eq!(
        kinds,
        [
            "Namespace",
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "DaemonSet"
        ]
    );
    only::<Namespace>("Namespace");
    only::<ServiceAccount>("ServiceAccount");
    only::<ClusterRole>("ClusterRole");
    only::<ClusterRoleBinding>("ClusterRoleBinding");
    only::<DaemonSet>("DaemonSet");
}

#[test]
fn the_agent_may_read_what_it_watches_create_events_and_nothing_else() {
    let rules = only::<ClusterRole>("ClusterRole").rules.unwrap();
    let mut resources = Vec::new();
    for rule in rules {
        let group = rule.api_groups.unwrap().join(",");
        let alarms = group == "events.k8s.io";
        let verbs: &[&str] = if alarms {
            &["create"]
        } else {
            &["get", "list", "watch"]
        };
        assert_eq!(rule.verbs, verbs, "{group}");
        resources.extend(
            rule.resources
                .unwrap()
                .iter()
                .map(|resource| format!("{group}/{resource}")),
        );
    }
    assert_eq!(
        resources,
        [
            "/pods",
            "/services",
            "/nodes",
            "/namespaces",
            "discovery.k8s.io/endpointslices",
            "events.k8s.io/events"
        ]
    );
}

#[test]
fn the_role_is_bound_to_the_account_the_agent_runs_under() {
    let account = only::<ServiceAccount>("ServiceAccount").metadata;
    let binding = only::<ClusterRoleBinding>("ClusterRoleBinding");
    let subject = &binding.subjects.as_ref().unwrap()[0];
    let pod = only::<DaemonSet>("DaemonSet")
        .spec
        .unwrap()
        .template
        .spec
        .unwrap();
    assert_eq!(
        Some(binding.role_ref.name),
        only::<ClusterRole>("ClusterRole").metadata.name
    );
    assert_eq!(
        (Some(&subject.name), subject.namespace.as_ref()),
        (account.name.as_ref(), account.namespace.as_ref())
    );
    assert_eq!(pod.service_account_name, account.name);
}

#[test]
fn the_agent_runs_on_every_node_in_its_network_and_only_observes() {
    let daemon_set: DaemonSet = only("DaemonSet");
    let pod = daemon_set.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    let toleration = &pod.tolerations.as_ref().unwrap()[0];
    assert_eq!(
        (toleration.operator.as_deref(), &toleration.key),
        (Some("Exists"), &None)
    );
    assert_eq!(pod.host_network, Some(true));
    let args = agent(daemon_set).args.unwrap();
    assert!(args.contains(&"--mode=observe".into()) && args.contains(&"--node-name=$(NODE_NAME)".into()));
}

#[test]
fn the_agent_mounts_the_hosts_bpffs_where_its_pins_are() {
    let daemon_set: DaemonSet = only("DaemonSet");
    let volumes = daemon_set
        .spec
        .as_ref()
        .unwrap()
        .template
        .spec
        .as_ref()
        .unwrap()
        .volumes
        .clone()
        .unwrap();
    let mounts = agent(daemon_set).volume_mounts.unwrap();
    assert_eq!(mounts.len(), volumes.len(), "every volume is mounted");
    let bpffs = mounts
        .iter()
        .find(|mount| mount.mount_path == "/sys/fs/bpf")
        .unwrap();
    let host = volumes.iter().find(|volume| volume.name == bpffs.name).unwrap();
    assert_eq!(host.host_path.as_ref().unwrap().path, "/sys/fs/bpf");
    assert_eq!(bpffs.mount_propagation.as_deref(), Some("HostToContainer"));
}
