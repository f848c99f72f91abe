//! The variants of a cluster network that the lab can build.

use serde::Deserialize;

/// How a node attaches its pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cni {
    /// A veth pair per pod, with host routes to the pod's addresses and a link-local gateway, as Calico does it.
    #[default]
    Ptp,
    /// A Linux bridge `cni0` that holds the gateway address, with `br_netfilter` on, as flannel does it.
    Bridge,
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
