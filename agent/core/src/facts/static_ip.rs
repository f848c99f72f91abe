//! Pods whose IP outlives them by design: the workload's next pod gets it, or shares it already.
//!
//! Other pods get the IP of their predecessor by chance only, and the API shows it in time. These
//! pods always get it: an agent that is a few seconds behind would deny packets that are meant for
//! the new pod. So the death of such a pod proves nothing.

use super::meta::Meta;
use super::networks;
use Mark::{Annotation, Label, OfStatefulSet, Requests};
use std::fmt;

/// The workloads and IPAMs that are treated so: docs/reference.md has the same rows, for users.
pub const STATIC_IPS: &[StaticIp] = &[
    // A migrating machine keeps its IP on the target pod (bridge binding, and every primary network
    // with persistent IPs), while the source pod's object is finished like a Job's.
    StaticIp {
        workload: "KubeVirt machines, which keep their IP while they migrate",
        marks: &[Label("kubevirt.io", "virt-launcher")],
    },
    // From Calico's IPAM, or past it.
    StaticIp {
        workload: "Calico, a given address",
        marks: &[
            Annotation("cni.projectcalico.org/ipAddrs"),
            Annotation("cni.projectcalico.org/ipAddrsNoIpam"),
        ],
    },
    // It writes `ip_address` on every pod, and keeps it for the name of a StatefulSet's pod.
    StaticIp {
        workload: "Kube-OVN, a workload's addresses",
        marks: &[
            Annotation("ovn.kubernetes.io/ip_pool"),
            OfStatefulSet("ovn.kubernetes.io/ip_address"),
        ],
    },
    StaticIp {
        workload: "Antrea",
        marks: &[
            Annotation("ipam.antrea.io/pod-ips"),
            OfStatefulSet("ipam.antrea.io/ippools"),
        ],
    },
    StaticIp {
        workload: "Spiderpool, an application's pools",
        marks: &[
            Annotation("ipam.spidernet.io/ippool"),
            Annotation("ipam.spidernet.io/ippools"),
            Annotation("ipam.spidernet.io/subnet"),
            Annotation("ipam.spidernet.io/subnets"),
        ],
    },
    StaticIp {
        workload: "Multus, given addresses",
        marks: &[Requests],
    },
];

/// A workload, or an IPAM, whose pods leave their IP to the next pod.
#[derive(Debug)]
pub struct StaticIp {
    /// For users.
    pub workload: &'static str,
    marks: &'static [Mark],
}

/// What shows that a pod is one of them.
#[derive(Debug)]
enum Mark {
    /// A label with this value.
    Label(&'static str, &'static str),
    /// An annotation, with any value.
    Annotation(&'static str),
    /// An annotation on the pod of a `StatefulSet`; on other pods it means nothing.
    OfStatefulSet(&'static str),
    /// A request of certain addresses in an annotation of Multus.
    Requests,
}

impl StaticIp {
    /// What shows that a pod is one of them, for users.
    pub fn marks(&self) -> String {
        let marks: Vec<String> = self.marks.iter().map(ToString::to_string).collect();
        marks.join(", ")
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label(key, value) => write!(f, "label `{key}: {value}`"),
            Annotation(key) => write!(f, "annotation `{key}`"),
            OfStatefulSet(key) => write!(f, "annotation `{key}` on a StatefulSet's pod"),
            Requests => {
                let [further, default] = networks::REQUEST;
                write!(
                    f,
                    "`ips` or `ipam-claim-reference` in `{further}` or `{default}`"
                )
            }
        }
    }
}

impl Meta<'_> {
    /// True if the pod's IP outlives it.
    pub(super) fn static_ip(&self) -> bool {
        let mut marks = STATIC_IPS.iter().flat_map(|row| row.marks);
        marks.any(|mark| match mark {
            Label(key, value) => self
                .labels
                .get(*key)
                .is_some_and(|label| &**label == *value),
            Annotation(key) => self.annotations.contains_key(*key),
            OfStatefulSet(key) => {
                let mut owners = self.owner_references.iter();
                self.annotations.contains_key(*key)
                    && owners.any(|owner| &*owner.kind == "StatefulSet")
            }
            Requests => self.asks_for_ips(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn is_static(meta: &Value) -> bool {
        let meta = meta.to_string();
        serde_json::from_str::<Meta<'_>>(&meta).unwrap().static_ip()
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
            assert!(is_static(&json!({"annotations": {(key): value}})), "{key}");
        }
    }

    #[test]
    fn virtual_machines_and_stateful_sets_with_addresses_keep_theirs_and_pods_of_shared_pools_do_not()
     {
        let carried = json!({"ovn.kubernetes.io/ip_address": "10.16.0.15", "ovn.kubernetes.io/allocated": "true"});
        let pools = json!({"cni.projectcalico.org/ipv4pools": r#"["default-ipv4-ippool"]"#,
            "cni.projectcalico.org/podIP": "10.244.1.7/32", "k8s.v1.cni.cncf.io/networks": "macvlan-a"});
        let owners = |kind: &str| json!([{"kind": kind, "name": "pg"}]);
        for (meta, expected) in [
            (
                json!({"labels": {"kubevirt.io": "virt-launcher", "app": "vm"}}),
                true,
            ),
            (json!({"labels": {"kubevirt.io": "virt-handler"}}), false),
            (json!({"labels": {"app": "web"}}), false),
            (
                json!({"annotations": carried, "ownerReferences": owners("StatefulSet")}),
                true,
            ),
            (
                json!({"annotations": carried, "ownerReferences": owners("ReplicaSet")}),
                false,
            ),
            (json!({"ownerReferences": owners("StatefulSet")}), false),
            (json!({"annotations": pools}), false),
        ] {
            assert_eq!(is_static(&meta), expected, "{meta}");
        }
    }
}
