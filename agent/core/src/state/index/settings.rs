//! Settings that are fixed for the agent's life.

use super::Ranges;

/// Settings that are fixed for the agent's life.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The agent's own node.
    pub node: String,
    /// Whether the node's pod range belongs to it alone.
    pub ipam: Ipam,
    /// The ranges in which endpoints may be denied.
    pub ranges: Ranges,
}

/// How the cluster hands out pod IPs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ipam {
    /// The node's ranges (`spec.podCIDRs`) count, unless pods show that others use them or that the node uses others: Calico, for one,
    /// leaves them set and hands out others
    #[default]
    Auto,
    /// Each node hands out its own podCIDRs.
    Node,
    /// One pool for the cluster: any pod may get any IP.
    Cluster,
}

impl Ipam {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Node, Self::Cluster];

    /// As `--ipam` takes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Node => "node",
            Self::Cluster => "cluster",
        }
    }

    /// Its meaning, for `--help`.
    #[must_use]
    pub const fn help(self) -> &'static str {
        match self {
            Self::Auto => "the node's ranges (spec.podCIDRs) count until a pod shows that they do not",
            Self::Node => "each node hands out its own podCIDRs",
            Self::Cluster => "one pool for the cluster: any pod may get any IP",
        }
    }
}
