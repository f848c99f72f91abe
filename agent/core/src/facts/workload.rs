//! The workload of a pod, where its pods stand in for each other.

use super::{Meta, nonzero_hash};
use std::num::NonZeroU64;

/// The namespace, kind and name of a pod's controlling owner; only its hash is kept, for there are as many as pods. Two workloads
/// with one hash can only lift a denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Workload(NonZeroU64);

impl Workload {
    /// The workload of a namespace, kind and name.
    pub fn new(namespace: &str, kind_and_name: (&str, &str)) -> Self {
        Self(nonzero_hash((namespace, kind_and_name)))
    }
}

impl Meta<'_> {
    /// None for a pod that is a member with a name of its own (`StatefulSet`), of a kind that may have such members, or without
    /// an owner. All `ReplicaSets` of a Deployment are one workload: their names are the Deployment's with the hash that is also a
    /// label (`pod-template-hash`, Argo's `rollouts-pod-template-hash`).
    pub(super) fn workload(&self) -> Option<Workload> {
        let mut owners = self.owner_references.iter();
        let owner = owners.find(|owner| *owner.controller)?;
        let (kind, name) = (&*owner.kind, &*owner.name);
        let workload = match kind {
            "ReplicaSet" => self.deployment(name).map_or((kind, name), |name| ("Deployment", name)),
            "DaemonSet" | "Job" | "ReplicationController" => (kind, name),
            _ => return None,
        };
        Some(Workload::new(&self.namespace, workload))
    }

    fn deployment<'a>(&self, replica_set: &'a str) -> Option<&'a str> {
        let hashes = self.labels.iter().filter(|(key, _)| key.ends_with("pod-template-hash"));
        let mut names = hashes.filter_map(|(_, hash)| replica_set.strip_suffix(&**hash)?.strip_suffix('-'));
        names.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workload(namespace: &str, kind: &str, name: &str, hash: &str) -> Option<Workload> {
        let owner = |controller, kind, name| json!({"kind": kind, "name": name, "controller": controller});
        let owners = [owner(false, "DaemonSet", "other"), owner(true, kind, name)];
        let meta =
            json!({"namespace": namespace, "labels": {"pod-template-hash": hash}, "ownerReferences": owners});
        serde_json::from_str::<Meta<'_>>(&meta.to_string()).unwrap().workload()
    }

    #[test]
    fn the_pods_of_all_replica_sets_of_a_deployment_are_of_one_workload() {
        let web = workload("shop", "ReplicaSet", "web-54cc", "54cc");
        assert!(web.is_some());
        assert_eq!(web, workload("shop", "ReplicaSet", "web-77dd", "77dd"));
        for other in [
            workload("bank", "ReplicaSet", "web-54cc", "54cc"),
            workload("shop", "ReplicaSet", "api-54cc", "54cc"),
            workload("shop", "ReplicaSet", "web-54cc", ""),
            workload("shop", "ReplicaSet", "web-54cc", "77dd"),
            workload("shop", "DaemonSet", "web", ""),
        ] {
            assert!(other.is_some() && other != web, "{other:?}");
        }
    }

    #[test]
    fn members_with_names_and_pods_of_unknown_kinds_are_of_no_workload() {
        for kind in ["StatefulSet", "StrimziPodSet", "Node", ""] {
            assert_eq!(workload("shop", kind, "pg", ""), None);
        }
        for kind in ["DaemonSet", "Job", "ReplicationController"] {
            assert!(workload("shop", kind, "pg", "").is_some());
        }
    }
}
