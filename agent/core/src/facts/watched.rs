//! What the agent watches: one table, from which watches, freshness, proofs, metrics and the status take it.

/// Declares `Watched` and `Fact` by rows `NAME = FACT(OBJECT), "its name in the status and the metrics", PROOF;`. `PROOF` is
/// true if a proof can rest on the collection, false if it only lowers the mode of a proven denial.
macro_rules! watched {
    (
        always { $($(#[$doc:meta])* $watched:ident = $fact:ident($object:ty), $name:literal, $proof:literal;)* }
        if_named { $(#[$one_doc:meta])* $one:ident = $one_fact:ident($one_object:ty), $one_name:literal, $one_proof:literal; }
        parts { $($(#[$part_doc:meta])* $part:ident($part_of:ty),)* }
        node { $($(#[$node_doc:meta])* $node:ident($of:ty),)* }
    ) => {
        /// A collection that one watch shows.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
        )]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum Watched {
            $($(#[$doc])* #[serde(rename = $name)] $watched,)*
            $(#[$one_doc])*
            #[serde(rename = $one_name)]
            $one,
        }

        impl Watched {
            /// The collections that every agent watches. Nothing is denied before each has been listed.
            pub const ALWAYS: [Self; [$($name),*].len()] = [$(Self::$watched),*];

            /// The collection that the fact lists in whole; `None` if it is about one object, or about the node.
            #[must_use]
            pub fn listed_by(fact: &Fact) -> Option<Self> {
                match fact {
                    $(Fact::$fact(Change::Reset(_)) => Some(Self::$watched),)*
                    Fact::$one_fact(Change::Reset(_)) => Some(Self::$one),
                    _ => None,
                }
            }

            /// The fact that it is empty.
            #[must_use]
            pub fn empty(self) -> Fact {
                match self {
                    $(Self::$watched => Fact::$fact(Change::Reset(vec![])),)*
                    Self::$one => Fact::$one_fact(Change::Reset(vec![])),
                }
            }

            /// True if a proof can rest on it. The others only lower the mode of a proven denial.
            #[must_use]
            pub const fn bears_proofs(self) -> bool {
                match self {
                    $(Self::$watched => $proof,)*
                    Self::$one => $one_proof,
                }
            }

            /// As the status and the metrics name it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$watched => $name,)*
                    Self::$one => $one_name,
                }
            }

            /// The collection across namespaces in the API: `/api/v1/pods`.
            #[must_use]
            pub const fn path(self) -> &'static str {
                match self {
                    $(Self::$watched => <$object as Object>::PATH,)*
                    Self::$one => <$one_object as Object>::PATH,
                }
            }

            /// Shows the visitor the type of its objects.
            pub fn visit<V: Visitor>(self, visitor: V) -> V::Output {
                match self {
                    $(Self::$watched => visitor.visit::<$object>(Fact::$fact),)*
                    Self::$one => visitor.visit::<$one_object>(Fact::$one_fact),
                }
            }
        }

        /// One change, or one list, that the API or the node reported.
        #[derive(Debug, Clone)]
        pub enum Fact {
            $(#[doc = concat!("From the watch of ", $name, ".")] $fact(Change<$object>),)*
            #[doc = concat!("From the watch of ", $one_name, ".")]
            $one_fact(Change<$one_object>),
            $($(#[$part_doc])* $part($part_of),)*
            $($(#[$node_doc])* $node($of),)*
        }
    };
}

use super::{Change, Fact, Object, Watched};
use std::fmt;

/// Something to do with the type of a collection's objects.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it, with the way from a change of objects to a fact.
    fn visit<O: Object>(self, fact: fn(Change<O>) -> Fact) -> Self::Output;
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
