//! The variants of a story.

use serde::Deserialize;

use super::{By, First};
use crate::neighbour::Kind;
use crate::net::{Cni, Overlay};

/// The story runs once for each combination.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Runs {
    /// Address families.
    pub family: Vec<Family>,
    /// Who makes the calls that name no `from`, and how a Service is reached by them.
    pub caller: Vec<Caller>,
    /// How pods are attached to their node.
    pub cni: Vec<Cni>,
    /// How nodes reach each other's pods.
    pub overlay: Vec<Overlay>,
    /// Which programs the neighbour has; empty: those that the story's `neighbour` names.
    pub neighbour: Vec<Kind>,
    /// Who is there first; empty: what the story's `neighbour` says.
    pub first: Vec<First>,
    /// What is done with denied packets; empty: what the story's `agent` says.
    pub action: Vec<Action>,
    /// Whether the story is told, unless `--all` is given, only in as many combinations as show each value of each list.
    pub sample: bool,
}

impl Default for Runs {
    fn default() -> Self {
        Self {
            family: vec![Family::Ipv4, Family::Ipv6],
            caller: vec![Caller::Pod],
            cni: vec![Cni::Ptp],
            overlay: vec![Overlay::None],
            neighbour: vec![],
            first: vec![],
            action: vec![],
            sample: false,
        }
    }
}

/// The address family of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Every address is IPv4.
    Ipv4,
    /// Every address is IPv6.
    Ipv6,
}

/// Who makes the calls that name no `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caller {
    /// The pod `client` on node-a, through cluster IPs.
    Pod,
    /// A process on node-a itself, through cluster IPs.
    Node,
    /// The host `external`, through the `NodePorts` of node-a.
    Nodeport,
    /// The pod `client`, and the proxy masquerades every Service flow.
    Masquerade,
}

/// What is done with denied packets, unless an annotation says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Nothing comes back.
    Drop,
    /// The client gets an answer.
    Reject,
    /// The packet leaves by an interface of the operator's.
    Capture,
}

impl Action {
    /// As `--action` takes it.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Reject => "reject",
            Self::Capture => "redirect=cap0",
        }
    }

    /// What becomes of denied packets.
    #[must_use]
    pub fn by(self) -> By {
        match self {
            Self::Drop => By::Drop,
            Self::Reject => By::Reject,
            Self::Capture => By::Capture,
        }
    }
}
