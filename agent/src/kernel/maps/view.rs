//! VIEW: what the programs may use to find out which Service a packet was aimed at, and until when
//! they deny.

use super::pinned::take_map;
use crate::shared::clock::boot_ns;
use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{Array, MapData};
use epguard_common::View;
use epguard_core::plan::Op;
use epguard_core::state::Tables;

/// VIEW, as it was written last.
pub struct ViewMap {
    map: Array<MapData, View>,
    written: View,
}

impl ViewMap {
    /// Takes the map of a loaded object, as an earlier process left it.
    pub(super) fn take_from(ebpf: &mut Ebpf) -> Result<Self> {
        let map: Array<_, View> = take_map(ebpf, "VIEW")?;
        let written = map.get(&0, 0).context("cannot read VIEW")?;
        Ok(Self { map, written })
    }

    /// What the programs read now.
    pub const fn written(&self) -> &View {
        &self.written
    }

    /// Changes what the programs read. Errors: VIEW cannot be written.
    pub fn change(&mut self, change: impl FnOnce(&mut View)) -> Result<()> {
        let mut view = self.written;
        change(&mut view);
        if view != self.written {
            self.map.set(0, view, 0).context("cannot write VIEW")?;
            self.written = view;
        }
        Ok(())
    }

    /// Counts the entries that an earlier process left.
    pub(super) fn restore(&mut self, tables: &Tables) -> Result<()> {
        // An older agent's VIEW may be gone.
        let services = tables.services.values().map(|service| service.number);
        let services = services.chain(tables.denied.keys().map(|key| key.service.number));
        let last = services.max().unwrap_or(0);
        self.change(|view| {
            view.suspects = count(tables.suspects.len());
            view.terminated = count(tables.terminated.len());
            view.last_service = view.last_service.max(last);
        })
    }

    /// Renews the lease of everything installed until the deadline, nanoseconds of
    /// `CLOCK_BOOTTIME`.
    pub fn renew_lease(&mut self, deadline_ns: u64) -> Result<()> {
        self.change(|view| view.lease_deadline_ns = deadline_ns)
    }

    /// Lets the programs judge packets by where a socket load balancer has connected their sockets.
    /// Earlier entries of CONNECTIONS become invalid if calls may have been missed until now.
    /// `everywhere`: whether all interfaces are hooked; none keeps what an earlier process has
    /// found.
    pub fn judge_by_socket(&mut self, in_force: bool, everywhere: Option<bool>) -> Result<()> {
        self.change(|view| {
            if view.socket_lb == 0 && in_force {
                view.socket_lb_epoch = epoch();
            }
            view.socket_lb = match (in_force, everywhere) {
                (false, _) => 0,
                (true, Some(true)) => View::HOOKED,
                (true, Some(false)) => View::FOUND,
                (true, None) => view.socket_lb.max(View::FOUND),
            };
        })
    }

    /// Writes the greatest number among new entries, before these: an agent that ends in between
    /// gives no number twice.
    pub(super) fn reserve_numbers(&mut self, ops: &[Op]) -> Result<()> {
        let numbers = ops.iter().filter_map(|op| match op {
            Op::Service(_, Some(number)) => Some(number.number),
            Op::Denial(key, Some(_)) => Some(key.service.number),
            _ => None,
        });
        let last = numbers.max().unwrap_or(0);
        self.change(|view| view.last_service = view.last_service.max(last))
    }
}

/// A count of entries, as VIEW holds it.
pub(super) fn count(entries: usize) -> u32 {
    u32::try_from(entries).unwrap_or(u32::MAX)
}

/// The time in milliseconds, as far as 32 bits go.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the same number comes again after 49 days"
)]
fn epoch() -> u32 {
    (boot_ns() / 1_000_000) as u32
}
