//! The variants of a story.

use serde::Deserialize;

use super::{Action, First};
use crate::neighbour::Kind;
use crate::net::{Cni, Overlay};

/// Lists of values; the story runs once for each combination.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Runs {
    /// Address families.
    pub family: Vec<Family>,
    /// Origin of the calls without `from`, and the address of the Service that they use.
    pub caller: Vec<Caller>,
    /// How pods are attached to their node.
    pub cni: Vec<Cni>,
    /// How nodes reach each other's pods.
    pub overlay: Vec<Overlay>,
    /// The neighbour's programs; empty: those of the story's `neighbour`.
    pub neighbour: Vec<Kind>,
    /// Which program starts first; empty: as the story's `neighbour` has it.
    pub first: Vec<First>,
    /// The action for denied packets; empty: that of the story's `agent`.
    pub action: Vec<Action>,
    /// Whether the story can also run with a load balancer at sockets, see [`Caller::at_sockets`].
    pub socket_lb: bool,
    /// Without `--all`: runs only as many combinations as are needed to use each value of each list.
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
            socket_lb: true,
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

/// The origin of calls without `from`.
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
    /// The pod `client`, whose cluster IPs a load balancer at sockets translates. There is no other proxy.
    SocketLbPod,
    /// A process on node-a itself, likewise.
    SocketLbNode,
    /// The pod `client`; a load balancer at sockets translates only those of the node's own processes, and the proxy the rest.
    SocketLbHostns,
}

impl Caller {
    /// Whether a load balancer at sockets takes the proxy's place.
    #[must_use]
    pub fn is_at_sockets(self) -> bool {
        matches!(self, Self::SocketLbPod | Self::SocketLbNode)
    }

    /// Whether there is a load balancer at sockets.
    #[must_use]
    pub fn has_socket_lb(self) -> bool {
        self.is_at_sockets() || self == Self::SocketLbHostns
    }

    /// The same host with a load balancer at sockets; none for hosts outside of the cluster, and for masquerading.
    #[must_use]
    pub fn at_sockets(self) -> Option<Self> {
        match self {
            Self::Pod | Self::SocketLbPod => Some(Self::SocketLbPod),
            Self::Node | Self::SocketLbNode => Some(Self::SocketLbNode),
            Self::Nodeport | Self::Masquerade | Self::SocketLbHostns => None,
        }
    }
}

impl Runs {
    /// Whether each caller has a load balancer at sockets.
    #[must_use]
    pub fn has_socket_lb(&self) -> bool {
        self.caller.iter().all(|caller| caller.has_socket_lb())
    }

    /// The same story with the callers `socket-lb-pod` and `socket-lb-node`; none if it cannot run with them.
    #[must_use]
    pub fn at_sockets(&self) -> Option<Self> {
        let asked = self.caller.iter().any(|caller| caller.at_sockets().is_some());
        (asked && self.socket_lb).then(|| Self {
            caller: vec![Caller::SocketLbPod, Caller::SocketLbNode],
            ..self.clone()
        })
    }
}
