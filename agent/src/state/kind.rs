//! The collections that lists are of.

use super::Scope;
use crate::facts::{Change::Reset, Fact, PodSource};
use std::fmt;

/// A collection that one watch shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Pods, as one of the Pod watches selects them.
    Pods(PodSource),
    /// All `EndpointSlices`.
    EndpointSlices,
    /// All Services.
    Services,
    /// All Nodes.
    Nodes,
    /// All Namespaces.
    Namespaces,
}

impl Kind {
    /// What the fact lists in whole; `None` if it is about one object.
    #[must_use]
    pub fn listed_by(fact: &Fact) -> Option<Self> {
        match fact {
            Fact::Pod(source, Reset(_)) => Some(Self::Pods(*source)),
            Fact::Slice(Reset(_)) => Some(Self::EndpointSlices),
            Fact::Service(Reset(_)) => Some(Self::Services),
            Fact::Node(Reset(_)) => Some(Self::Nodes),
            Fact::Namespace(Reset(_)) => Some(Self::Namespaces),
            _ => None,
        }
    }

    /// The Pod watches of a scope.
    #[must_use]
    pub const fn pods(scope: Scope) -> &'static [Self] {
        match scope {
            Scope::Cluster => &[Self::Pods(PodSource::All)],
            Scope::Node => &[Self::Pods(PodSource::OwnNode)],
            Scope::Terminal => &[Self::Pods(PodSource::OwnNode), Self::Pods(PodSource::Terminal)],
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pods(_) => "pods",
            Self::EndpointSlices => "endpointslices",
            Self::Services => "services",
            Self::Nodes => "nodes",
            Self::Namespaces => "namespaces",
        })
    }
}
