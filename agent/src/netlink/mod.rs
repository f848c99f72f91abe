//! The node's interfaces and local addresses, as the kernel reports them.

mod follow;
mod interface;
mod selection;
#[cfg(test)]
mod tests;

pub use follow::follow;
pub use glob::Pattern as Glob;
pub use interface::Interface;
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
    /// Everything that was there at the start has been sent; sent once.
    Settled,
}
