//! The variants of a story.

use serde::Deserialize;
use strum::Display;

use super::{Action, First};
use crate::neighbour::Place;
use crate::net::{Cni, Overlay};

/// Lists of values; the story runs once for each combination.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Runs {
    pub family: Vec<Family>,
    pub caller: Vec<Caller>,
    pub cni: Vec<Cni>,
    pub overlay: Vec<Overlay>,
    pub first: Vec<First>,
    pub place: Vec<Place>,
    pub action: Vec<Action>,
    pub socket_lb: bool,
    pub sample: bool,
}

impl Default for Runs {
    fn default() -> Self {
        Self {
            family: vec![Family::Ipv4, Family::Ipv6],
            caller: vec![Caller::Pod],
            cni: vec![Cni::Ptp],
            overlay: vec![Overlay::None],
            first: vec![],
            place: vec![],
            action: vec![],
            socket_lb: true,
            sample: false,
        }
    }
}

words! {
    /// The address family of a run.
    Family { Ipv4, Ipv6 }

    /// The origin of calls without `from`.
    Caller { Pod, Node, Nodeport, Masquerade, SocketLbPod, SocketLbNode, SocketLbHostns, PacketLb }
}

impl Caller {
    /// Whether a load balancer at sockets takes the proxy's place.
    pub fn is_at_sockets(self) -> bool {
        matches!(self, Self::SocketLbPod | Self::SocketLbNode)
    }

    /// Whether there is a load balancer at sockets.
    pub fn has_socket_lb(self) -> bool {
        self.is_at_sockets() || self == Self::SocketLbHostns
    }

    /// Whether there is a load balancer.
    pub fn has_balancer(self) -> bool {
        self.has_socket_lb() || self.is_per_packet()
    }

    /// Whether a load balancer translates packets of pods.
    pub fn is_per_packet(self) -> bool {
        matches!(self, Self::SocketLbHostns | Self::PacketLb)
    }
}

impl Runs {
    /// Whether each caller has a load balancer at sockets.
    pub fn has_socket_lb(&self) -> bool {
        self.caller.iter().all(|caller| caller.has_socket_lb())
    }

    /// The same story with the callers `socket-lb-pod` and `socket-lb-node`; none if it cannot run with them.
    pub fn at_sockets(&self) -> Option<Self> {
        let at_sockets = [Caller::SocketLbPod, Caller::SocketLbNode];
        // Hosts of the cluster whose packets are not masqueraded have a counterpart there.
        let has_one =
            |caller: &Caller| at_sockets.contains(caller) || [Caller::Pod, Caller::Node].contains(caller);
        let can_run = self.socket_lb && self.caller.iter().any(has_one);
        can_run.then(|| Self { caller: at_sockets.into(), ..self.clone() })
    }
}
