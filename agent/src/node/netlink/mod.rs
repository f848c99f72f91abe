//! The node's interfaces and local addresses, as the kernel reports them.

/// A closure that takes what one form of an enum holds, and nothing of others.
macro_rules! only {
    ($($form:pat $(if $holds:expr)? => $taken:expr),+) => {
        |it| match it {
            $($form $(if $holds)? => Some($taken),)+
            _ => None,
        }
    };
}
pub(crate) use only;

mod evidence;
mod follow;
#[cfg(test)]
mod fuzz;
mod interface;
pub mod netfilter;
mod presence;
pub mod request;
mod roles;
pub(crate) mod route;
#[cfg(test)]
mod tests;

pub use follow::follow;
pub use interface::Interface;
pub use presence::presence;
pub use roles::{Glob, RawRole, Role, Roles, Selection};
pub use route::tables;

use epguard_common::Addr;

/// A change of the node's network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An interface is new, or (after its `Gone`) it changed so that its role may differ.
    Appeared(Interface),
    /// The interface was deleted, moved to another network namespace, or is about to appear changed.
    Gone {
        /// Its number; names are reused.
        ifindex: u32,
    },
    /// All unicast addresses of the node, ascending, without loopback and link-local ones.
    Addresses(Vec<Addr>),
    /// All addresses that the node leads to: host routes, neighbours that answered. `None`: not known now.
    Held(Option<Vec<Addr>>),
    /// Addresses that the node was announced to lead to. It may no longer do so.
    Announced(Vec<Addr>),
    /// The results of a dump that began then (`CLOCK_BOOTTIME`) have been sent, and every announcement before it.
    Looked(std::time::Duration),
    /// The interfaces that default routes lead through.
    Defaults(std::collections::BTreeSet<u32>),
    /// Everything that was there at the start has been sent; sent once.
    Settled,
    /// Reported interfaces may be out of date: they cannot be listed now.
    Lost,
    /// Reported interfaces are up to date again. But an interface may have been made anew under its old number and
    /// name.
    Recovered,
}
