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
use epguard_core::facts::{Cidr, Routes};

/// A change of the node's network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An interface is new, or (after its `Gone`) it changed so that its role may differ.
    Appeared(Interface),
    /// The interface was deleted, moved to another network namespace, or is about to appear
    /// changed.
    Gone {
        /// Its number; names are reused.
        ifindex: u32,
    },
    /// All unicast addresses of the node, ascending, without loopback and link-local ones.
    Addresses(Vec<Addr>),
    /// All routes to parts of the ranges that were asked about. `None`: not known now.
    Routes(Option<Routes>),
    /// Routes that were announced since, of which some lead to such parts. They may be gone again.
    Announced(Vec<Cidr>),
    /// The interfaces that default routes lead through.
    Defaults(std::collections::BTreeSet<u32>),
    /// Everything that was there at the start has been sent; sent once.
    Settled,
    /// Reported interfaces may be out of date: they cannot be listed now.
    Lost,
    /// Reported interfaces are up to date again. But an interface may have been made anew under its
    /// old number and name.
    Recovered,
}
