//! The pods, Namespaces and Services of a story.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A pod of the story. It exists once a step creates it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Pod {
    /// `namespace/name` of the object. Two pods of a story may share it, one after the other, with different UIDs.
    pub is: String,
    /// A name for the address, so that several pods can have the same; by default an address of its own.
    pub ip: Option<String>,
    /// The address of its next sandbox, see [`super::PodEvent::NewSandbox`].
    pub next_ip: Option<String>,
    /// `node-a` or `node-b`.
    #[serde(default = "node_a")]
    pub node: String,
    /// Labels, for selectors.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// For `epguard.io/mode` and the like.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Ports that its server answers on, over TCP and UDP.
    #[serde(default = "target_ports")]
    pub ports: Vec<u16>,
    /// What its server answers; by default its name in the story.
    pub answers: Option<String>,
    /// A static pod's mirror.
    #[serde(default)]
    pub mirror: bool,
    /// The version of the kubelet that reports its status.
    #[serde(default)]
    pub kubelet: Kubelet,
}

/// Which kubelet writes a pod's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Kubelet {
    /// Of Kubernetes 1.36.
    #[default]
    #[serde(rename = "1.36")]
    Current,
    /// Of 1.26: it never reports `PodReadyToStartContainers`.
    #[serde(rename = "1.26")]
    Old,
    /// Of k3s 1.36: it and the controllers are one program, and write under one manager's name.
    #[serde(rename = "k3s")]
    K3s,
}

/// A Namespace.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Namespace {
    /// For `epguard.io/mode` and the like.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// A Service. Its cluster IP is chosen by the lab; with callers of kind `nodeport` it also has a `NodePort`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Service {
    /// Labels of its pods; without it the Service has no selector.
    pub selector: Option<BTreeMap<String, String>>,
    /// The port of the cluster IP.
    #[serde(default = "port")]
    pub port: u16,
    /// The `NodePort` of its first protocol; by default only callers of kind `nodeport` have one.
    pub node_port: Option<u16>,
    /// The pods' port.
    #[serde(default = "target_port")]
    pub target_port: u16,
    /// One Service port for each.
    #[serde(default = "tcp")]
    pub protocols: Vec<Wire>,
    /// `spec.publishNotReadyAddresses`.
    #[serde(default)]
    pub publish_not_ready_addresses: bool,
    /// For `epguard.io/mode` and the like.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// A transport protocol that the lab has sockets for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

fn node_a() -> String {
    "node-a".into()
}

fn port() -> u16 {
    80
}

fn target_port() -> u16 {
    8080
}

fn target_ports() -> Vec<u16> {
    vec![target_port()]
}

fn tcp() -> Vec<Wire> {
    vec![Wire::Tcp]
}
