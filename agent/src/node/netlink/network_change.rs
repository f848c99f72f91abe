//! What the node's netlink sockets report.

use super::interface::Interface;
use epguard_common::Addr;
use epguard_core::facts::{Cidr, Routes};
use std::collections::BTreeSet;

/// A change of the node's network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkChange {
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
    Defaults(BTreeSet<u32>),
    /// Everything that was there at the start has been sent; sent once.
    Settled,
    /// Reported interfaces may be out of date: they cannot be listed now.
    Lost,
    /// Reported interfaces are up to date again. But an interface may have been made anew under its
    /// old number and name.
    Recovered,
}
