//! The pods, Namespaces and Services of a story, and the program beside epguard.

use std::collections::BTreeMap;

use serde::Deserialize;
use strum::Display;

use super::number;
use crate::neighbour::{NeighbourKind, Place};
use crate::proxy::Protocol;

/// A pod of the story. It exists once a step creates it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Pod {
    pub is: String,
    pub ip: Option<String>,
    pub next_ip: Option<String>,
    pub other_family: Option<String>,
    pub net1: Option<String>,
    #[serde(default = "node_a")]
    pub node: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    #[serde(default = "target_ports")]
    pub ports: Vec<u16>,
    pub answers: Option<String>,
    #[serde(default)]
    pub mirror: bool,
    #[serde(default)]
    pub kubelet: Kubelet,
    pub manager: Option<String>,
    pub owner: Option<Owner>,
    #[serde(default)]
    pub host_ports: Vec<u16>,
    #[serde(default)]
    pub host_network: bool,
}

/// The controller that has made a pod.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Owner {
    pub kind: String,
    pub name: String,
    #[serde(default = "apps")]
    pub api_version: String,
}

/// A process of a node that is no pod. It runs once a step starts it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NodeServer {
    #[serde(default = "node_a")]
    pub node: String,
    #[serde(default = "target_ports")]
    pub ports: Vec<u16>,
}

/// Which kubelet writes a pod's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Kubelet {
    #[default]
    #[serde(rename = "1.36")]
    Current,
    #[serde(rename = "1.26")]
    Old,
    #[serde(rename = "k3s")]
    K3s,
}

/// A Namespace.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Namespace {
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// A Service. Its cluster IP is chosen by the lab; with callers of kind `nodeport` it also has a
/// `NodePort`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Service {
    pub selector: Option<BTreeMap<String, String>>,
    #[serde(default = "number::<80, _>")]
    pub port: u16,
    pub node_port: Option<u16>,
    #[serde(default)]
    pub dual_stack: bool,
    #[serde(default)]
    pub net1: bool,
    #[serde(default = "number::<8080, _>")]
    pub target_port: u16,
    #[serde(default = "tcp")]
    pub protocols: Vec<Wire>,
    #[serde(default)]
    pub publish_not_ready_addresses: bool,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

words! {
    /// A transport protocol that the lab has sockets for.
    #[derive(Default)]
    Wire { #[default] Tcp, Udp }

    /// Which program starts first.
    First { Neighbour, Epguard, Later }
}

impl From<Wire> for Protocol {
    fn from(wire: Wire) -> Self {
        match wire {
            Wire::Tcp => Self::Tcp,
            Wire::Udp => Self::Udp,
        }
    }
}

/// The neighbour of a story. It hooks all pods of node-a.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NeighbourOptions {
    pub kind: NeighbourKind,
    #[serde(default)]
    pub place: Place,
    #[serde(default)]
    pub forbids: Vec<Forbidden>,
    pub first: Option<First>,
}

/// Calls that the neighbour's policy drops, over TCP and UDP.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Forbidden {
    pub from: String,
    pub to: String,
    pub port: Option<u16>,
}

fn node_a() -> String {
    "node-a".into()
}

fn target_ports() -> Vec<u16> {
    vec![8080]
}

fn apps() -> String {
    "apps/v1".into()
}

fn tcp() -> Vec<Wire> {
    vec![Wire::Tcp]
}
