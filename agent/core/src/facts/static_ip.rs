//! Pods whose IP outlives them by design: the workload's next pod gets it, or shares it already.
//!
//! Other pods get the IP of their predecessor by chance only, and the API shows it in time. These pods always get it:
//! an agent that is a few seconds behind would deny packets that are meant for the new pod. So the death of such a pod
//! proves nothing. docs/reference.md has the table for users.

use super::Meta;

/// Labels that mark such pods.
const LABELS: [(&str, &str); 1] = [
    // KubeVirt: a migrating machine keeps its IP on the target pod (bridge binding, and every primary network with
    // persistent IPs), while the source pod's object is finished like a Job's.
    ("kubevirt.io", "virt-launcher"),
];

/// Annotations whose presence marks such pods.
const ANNOTATIONS: [&str; 8] = [
    // Calico: this very address, from its IPAM or past it.
    "cni.projectcalico.org/ipAddrs",
    "cni.projectcalico.org/ipAddrsNoIpam",
    // Kube-OVN: one of a workload's few addresses.
    "ovn.kubernetes.io/ip_pool",
    // Antrea: this very address.
    "ipam.antrea.io/pod-ips",
    // Spiderpool: the pools of an application, fixed to it.
    "ipam.spidernet.io/ippool",
    "ipam.spidernet.io/ippools",
    "ipam.spidernet.io/subnet",
    "ipam.spidernet.io/subnets",
];

/// Annotations that mark the pods of a `StatefulSet`: these IPAMs keep an address for the pod's name. On other pods
/// they mean nothing; Kube-OVN writes `ip_address` on every pod.
const OF_STATEFUL_SETS: [&str; 2] = ["ovn.kubernetes.io/ip_address", "ipam.antrea.io/ippools"];

impl Meta {
    /// True if the pod's IP outlives it.
    pub(super) fn static_ip(&self) -> bool {
        let annotated = |key: &&str| self.annotations.contains_key(*key);
        let stateful = || {
            self.owner_references
                .iter()
                .any(|owner| owner.kind == "StatefulSet")
        };
        LABELS
            .iter()
            .any(|(key, value)| self.labels.get(*key).is_some_and(|label| label == value))
            || ANNOTATIONS.iter().any(annotated)
            || OF_STATEFUL_SETS.iter().any(annotated) && stateful()
            || self.asks_for_ips()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn is_static(meta: Value) -> bool {
        serde_json::from_value::<Meta>(meta).unwrap().static_ip()
    }

    #[test]
    fn a_virtual_machines_launcher_keeps_its_ip_and_kubevirts_other_pods_do_not() {
        assert!(is_static(
            json!({"labels": {"kubevirt.io": "virt-launcher", "app": "vm"}})
        ));
        assert!(!is_static(json!({"labels": {"kubevirt.io": "virt-handler"}})));
        assert!(!is_static(json!({"labels": {"app": "web"}})));
    }

    #[test]
    fn a_pod_that_asks_its_ipam_for_an_address_keeps_it() {
        for (key, value) in [
            ("cni.projectcalico.org/ipAddrs", r#"["192.168.0.1"]"#),
            (
                "cni.projectcalico.org/ipAddrsNoIpam",
                r#"["10.0.0.1", "2001:db8::1"]"#,
            ),
            ("ovn.kubernetes.io/ip_pool", "10.16.0.15,10.16.0.16"),
            ("ipam.antrea.io/pod-ips", "172.30.0.5"),
            ("ipam.spidernet.io/ippool", r#"{"ipv4": ["pool-1"]}"#),
            (
                "ipam.spidernet.io/ippools",
                r#"[{"interface": "eth0", "ipv4": ["pool-1"]}]"#,
            ),
            ("ipam.spidernet.io/subnet", r#"{"ipv4": ["subnet-1"]}"#),
            (
                "k8s.v1.cni.cncf.io/networks",
                r#"[{"name": "m", "ips": ["192.0.2.205/24"]}]"#,
            ),
        ] {
            assert!(is_static(json!({"annotations": {(key): value}})), "{key}");
        }
    }

    #[test]
    fn where_every_pod_carries_its_address_only_a_stateful_sets_pods_keep_it() {
        let annotations =
            json!({"ovn.kubernetes.io/ip_address": "10.16.0.15", "ovn.kubernetes.io/allocated": "true"});
        let of = |kind: &str| json!({"annotations": annotations, "ownerReferences": [{"kind": kind, "name": "pg"}]});
        assert!(is_static(of("StatefulSet")));
        assert!(!is_static(of("ReplicaSet")));
        assert!(!is_static(
            json!({"ownerReferences": [{"kind": "StatefulSet", "name": "pg"}]})
        ));
    }

    #[test]
    fn pools_that_many_pods_share_are_no_static_address() {
        assert!(!is_static(json!({"annotations": {
            "cni.projectcalico.org/ipv4pools": r#"["default-ipv4-ippool"]"#,
            "cni.projectcalico.org/podIP": "10.244.1.7/32",
            "k8s.v1.cni.cncf.io/networks": "macvlan-a",
        }})));
    }
}
