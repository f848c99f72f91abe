//! The collections that the agent watches: one list for watches, freshness, proofs, metrics and the status.

use super::{Change::Reset, Fact};
use std::fmt;

/// A collection that one watch shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Watched {
    /// All pods.
    Pods,
    /// All `EndpointSlices`.
    EndpointSlices,
    /// All Services.
    Services,
    /// All Nodes.
    Nodes,
    /// All Namespaces.
    Namespaces,
    /// The one `ConfigMap` with the modes of all nodes. No denial rests on it, so its age does not matter.
    ModePolicy,
}

impl Watched {
    /// The collections that every agent watches. Nothing is denied before each has been listed.
    pub const ALWAYS: [Self; 5] = [
        Self::Pods,
        Self::EndpointSlices,
        Self::Services,
        Self::Nodes,
        Self::Namespaces,
    ];

    /// The collection that the fact lists in whole; `None` if it is about one object, or about the node.
    #[must_use]
    pub fn listed_by(fact: &Fact) -> Option<Self> {
        match fact {
            Fact::Pod(Reset(_)) => Some(Self::Pods),
            Fact::Slice(Reset(_)) => Some(Self::EndpointSlices),
            Fact::Service(Reset(_)) => Some(Self::Services),
            Fact::Node(Reset(_)) => Some(Self::Nodes),
            Fact::Namespace(Reset(_)) => Some(Self::Namespaces),
            Fact::ModePolicy(Reset(_)) => Some(Self::ModePolicy),
            _ => None,
        }
    }

    /// True if a proof can rest on it. Namespaces and the `ConfigMap` only lower the mode of a proven denial.
    #[must_use]
    pub const fn bears_proofs(self) -> bool {
        !matches!(self, Self::Namespaces | Self::ModePolicy)
    }

    /// As the status and the metrics name it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::EndpointSlices => "endpointslices",
            Self::Services => "services",
            Self::Nodes => "nodes",
            Self::Namespaces => "namespaces",
            Self::ModePolicy => "configmaps(fleet)",
        }
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
