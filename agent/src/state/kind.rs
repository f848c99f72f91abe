//! The collections that lists are of.

use crate::facts::{Change::Reset, Fact};
use std::fmt;

/// A collection that one watch shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// All pods.
    Pods,
    /// All `EndpointSlices`.
    EndpointSlices,
    /// All Services.
    Services,
    /// All Nodes.
    Nodes,
}

impl Kind {
    /// What the fact lists in whole; `None` if it is about one object.
    #[must_use]
    pub fn listed_by(fact: &Fact) -> Option<Self> {
        match fact {
            Fact::Pod(Reset(_)) => Some(Self::Pods),
            Fact::Slice(Reset(_)) => Some(Self::EndpointSlices),
            Fact::Service(Reset(_)) => Some(Self::Services),
            Fact::Node(Reset(_)) => Some(Self::Nodes),
            _ => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pods => "pods",
            Self::EndpointSlices => "endpointslices",
            Self::Services => "services",
            Self::Nodes => "nodes",
        })
    }
}
