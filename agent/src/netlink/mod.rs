//! The node's interfaces and local addresses, as the kernel reports them.

mod follow;
mod interface;
mod presence;
mod roles;
mod selection;
#[cfg(test)]
mod tests;

pub use follow::follow;
pub use glob::Pattern as Glob;
pub use interface::Interface;
pub use presence::presence;
pub use roles::Roles;
pub use selection::{Role, Selection};

use epguard_common::Addr;

/// A change of the node's network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An interface that was not there, or (after its `Gone`) one that changed so that its role may differ.
    Appeared(Interface),
    /// The interface was deleted, moved to another network namespace, or is about to appear changed.
    Gone {
        /// Its number; names are reused.
        ifindex: u32,
    },
    /// All unicast addresses of the node, ascending, without loopback and link-local ones.
    Addresses(Vec<Addr>),
    /// Every address that the node leads to: host routes into its interfaces, neighbours that answered.
    Held(Vec<Addr>),
    /// The interfaces that default routes lead through.
    Defaults(std::collections::BTreeSet<u32>),
    /// Everything that was there at the start has been sent; sent once.
    Settled,
}
