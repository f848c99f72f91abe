//! What the agent watches: one table, from which watches, freshness, proofs, metrics and the status
//! take it.

use super::annotations::Namespace;
use super::change::Change;
use super::mode_policy::ModePolicy;
use super::node::{Node, NodeSeen};
use super::object::Object;
use super::pod::Pod;
use super::presence::Presence;
use super::service::Service;
use super::slice::Slice;
use epguard_common::Addr;

/// Declares `Watched` and `Fact` by rows
/// `NAME = FACT(OBJECT), "its name in the status and the metrics", PROOF;`. `PROOF` is true if a
/// proof can rest on the collection, false if it only lowers the mode of a proven denial.
macro_rules! watched {
    (
        watched { $($(#[$doc:meta])* $watched:ident = $fact:ident($object:ty), $name:literal, $proof:literal;)* }
        other { $($(#[$other_doc:meta])* $other:ident($of:ty),)* }
    ) => {
        /// A collection that one watch shows.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
            strum::Display, strum::IntoStaticStr, schemars::JsonSchema,
        )]
        pub enum Watched {
            $($(#[$doc])* #[serde(rename = $name)] #[strum(serialize = $name)] $watched,)*
        }

        impl Watched {
            /// The collection that the fact lists in whole; `None` if it is about one object, or
            /// about the node.
            pub fn listed_by(fact: &Fact) -> Option<Self> {
                match fact {
                    $(Fact::$fact(Change::Reset(_)) => Some(Self::$watched),)*
                    _ => None,
                }
            }

            /// The collection that the fact is about; `None` if it is about the node.
            pub const fn of(fact: &Fact) -> Option<Self> {
                match fact {
                    $(Fact::$fact(_) => Some(Self::$watched),)*
                    $(Fact::$other(_) => None,)*
                }
            }

            /// The fact that it is empty.
            pub fn empty(self) -> Fact {
                match self {
                    $(Self::$watched => Fact::$fact(Change::Reset(vec![])),)*
                }
            }

            /// True if a proof can rest on it. The others only lower the mode of a proven denial.
            pub const fn bears_proofs(self) -> bool {
                match self {
                    $(Self::$watched => $proof,)*
                }
            }

            /// Shows the visitor the type of its objects.
            pub fn visit<V: Visitor>(self, visitor: V) -> V::Output {
                match self {
                    $(Self::$watched => visitor.visit::<$object>(Fact::$fact),)*
                }
            }
        }

        /// One change, or one list, that the API or the node reported.
        #[derive(Debug, Clone)]
        pub enum Fact {
            $(#[doc = concat!("From the watch of ", $name, ".")] $fact(Change<$object>),)*
            $($(#[$other_doc])* $other($of),)*
        }
    };
}

watched! {
    watched {
        /// All pods.
        Pods = Pod(Pod), "pods", true;
        /// All `EndpointSlices`.
        EndpointSlices = Slice(Slice), "endpointslices", true;
        /// All Services.
        Services = Service(Service), "services", true;
        /// All Nodes.
        Nodes = Node(Node), "nodes", true;
        /// All Namespaces.
        Namespaces = Namespace(Namespace), "namespaces", false;
        /// The one `ConfigMap` with the modes of all nodes. No denial rests on it, so its age does
        /// not matter.
        ModePolicy = ModePolicy(ModePolicy), "configmaps(mode-policy)", false;
    }
    other {
        /// All addresses of this node's own interfaces, from netlink.
        LocalAddresses(Vec<Addr>),
        /// Holders of IPs, as this node and its datapath see them.
        Presence(Presence),
        /// Whether a socket load balancer translates calls on this node.
        SocketLb(bool),
        /// Whether a Node is there, as the API server has answered.
        NodeSeen(NodeSeen),
    }
}

/// Something to do with the type of a collection's objects.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it, with the way from a change of objects to a fact.
    fn visit<O: Object>(self, fact: fn(Change<O>) -> Fact) -> Self::Output;
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
}
