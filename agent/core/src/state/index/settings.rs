//! Settings that are fixed for the agent's life.

use crate::facts::Cidr;
use epguard_common::Addr;

/// Settings that are fixed for the agent's life.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The agent's own node.
    pub node: String,
    /// Whether the node's pod range belongs to it alone.
    pub ipam: Ipam,
    /// The ranges in which endpoints may be denied.
    pub ranges: Ranges,
}

/// How the cluster hands out pod IPs; the messages are for `--help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::EnumMessage, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Ipam {
    /// The node's ranges count, unless pods show that others use them or that the node uses others:
    /// Calico, for one, leaves them set and hands out others.
    #[default]
    #[strum(message = "the node's ranges (spec.podCIDRs) count until a pod shows that they do not")]
    Auto,
    /// Each node hands out its own ranges.
    #[strum(message = "each node hands out its own podCIDRs")]
    Node,
    /// One pool.
    #[strum(message = "one pool for the cluster: any pod may get any IP")]
    Cluster,
}

/// The ranges of `--protect-cidr` and `--exclude-cidr`.
#[derive(Debug, Clone, Default)]
pub struct Ranges {
    /// Only endpoints inside one of these are denied; if none is given, all may be.
    pub protect: Vec<Cidr>,
    /// Endpoints inside one of these never are.
    pub exclude: Vec<Cidr>,
}

impl Ranges {
    /// True if an endpoint may be denied.
    pub fn cover(&self, ip: Addr) -> bool {
        (self.protect.is_empty() || is_in_one_of(&self.protect, ip))
            && !is_in_one_of(&self.exclude, ip)
    }
}

fn is_in_one_of(ranges: &[Cidr], ip: Addr) -> bool {
    ranges.iter().any(|range| range.contains(ip))
}
