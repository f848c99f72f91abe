//! The variants of a cluster network that the lab can build.

use serde::Deserialize;
use strum::Display;

/// How a node attaches its pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Cni {
    /// A veth pair per pod, with host routes to the pod's addresses and a link-local gateway, as Calico does it.
    #[default]
    Ptp,
    /// A Linux bridge `cni0` that holds the gateway address, with `br_netfilter` on, as flannel does it.
    Bridge,
    /// As [`Cni::Bridge`] with `br_netfilter` off: netfilter sees no packet that only crosses the bridge.
    BridgeWithoutNetfilter,
    /// As [`Cni::Bridge`], and the bridge floods frames to pods to all its ports, as it does while it has no entry for a pod's
    /// link-layer address.
    BridgeFloods,
}

impl Cni {
    /// Whether pods are at a bridge.
    #[must_use]
    pub const fn is_bridge(self) -> bool {
        !matches!(self, Self::Ptp)
    }
}

/// How a node reaches the pods of the other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overlay {
    /// Plain routes over the uplink.
    #[default]
    None,
    /// A VXLAN device `flannel.1` over the uplink.
    Vxlan,
}

/// What [`super::Topology::new`] builds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct TopologyOptions {
    /// How pods are attached.
    pub cni: Cni,
    /// How nodes reach each other's pods.
    pub overlay: Overlay,
}
