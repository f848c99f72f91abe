//! VIEW: what the programs may use to find out which Service a packet was aimed at.

use super::{Writer, count};
use crate::shared::clock::boot_ns;
use anyhow::{Context as _, Result};
use epguard_common::View;
use epguard_core::plan::Op;

impl Writer {
    /// The greatest number of a Service that was ever written.
    #[must_use]
    pub const fn last_service(&self) -> u32 {
        self.written_view.last_service
    }

    /// Lets the programs read conntrack entries, which begin there in `struct nf_conn`; 0: none are read.
    ///
    /// Errors: VIEW cannot be written.
    pub fn read_entries_at(&mut self, entry_at: u32) -> Result<()> {
        if self.written_view.entry_at == entry_at {
            return Ok(());
        }
        self.written_view.entry_at = entry_at;
        self.write_view()
    }

    /// Lets the programs look up connections in Cilium's maps.
    ///
    /// Errors: VIEW cannot be written.
    pub fn read_cilium(&mut self, is_there: bool) -> Result<()> {
        if self.written_view.cilium == u32::from(is_there) {
            return Ok(());
        }
        self.written_view.cilium = is_there.into();
        self.write_view()
    }

    /// Lets the programs look up the role of an interface before they judge what leaves there, from now on.
    pub(super) fn look_up_roles(&mut self) -> Result<()> {
        if self.written_view.relays != 0 {
            return Ok(());
        }
        self.written_view.relays = 1;
        self.write_view()
    }

    /// Lets the programs judge packets by where a socket load balancer has connected their sockets. Earlier entries of
    /// CONNECTIONS become invalid if calls may have been missed until now. `everywhere`: whether all interfaces are hooked.
    ///
    /// Errors: VIEW cannot be written.
    pub fn judge_by_socket(&mut self, in_force: bool, everywhere: bool) -> Result<()> {
        let socket_lb = match (in_force, everywhere) {
            (false, _) => 0,
            (true, false) => View::FOUND,
            (true, true) => View::HOOKED,
        };
        if self.written_view.socket_lb == socket_lb {
            return Ok(());
        }
        if self.written_view.socket_lb == 0 {
            self.written_view.socket_lb_epoch = epoch();
        }
        self.written_view.socket_lb = socket_lb;
        self.write_view()
    }

    /// Writes the greatest number among new entries, before these: an agent that ends in between gives no number twice.
    pub(super) fn reserve_numbers(&mut self, ops: &[Op]) -> Result<()> {
        let numbers = ops.iter().filter_map(|op| match op {
            Op::PutService(_, number) => Some(number.number),
            Op::PutDenial(key, _) => Some(key.service.number),
            _ => None,
        });
        let last = numbers.max().unwrap_or(0);
        if last <= self.written_view.last_service {
            return Ok(());
        }
        self.written_view.last_service = last;
        self.write_view()
    }

    pub(super) fn write_view(&mut self) -> Result<()> {
        self.view.set(0, self.written_view, 0).context("cannot write VIEW")
    }
}

/// The view of an earlier process, for the entries that it left.
pub(super) fn restored(pinned: View, tables: &epguard_core::state::Tables) -> View {
    // An older agent's VIEW may be gone.
    let services = tables.services.values().map(|service| service.number);
    let services = services.chain(tables.denied.keys().map(|key| key.service.number));
    View {
        suspects: count(tables.suspects.len()),
        terminated: count(tables.terminated.len()),
        last_service: services.max().unwrap_or(0).max(pinned.last_service),
        ..pinned
    }
}

/// The time in milliseconds, as far as 32 bits go.
#[allow(clippy::cast_possible_truncation, reason = "the same number comes again after 49 days")]
fn epoch() -> u32 {
    (boot_ns() / 1_000_000) as u32
}
