//! TERMINATED, which the programs write too: a packet from an IP lifts its entry there, before the
//! agent reads it.

use super::Writer;
use crate::kernel::maps::lifts::{Lift, lift_in, lifted_at};
use crate::kernel::maps::refusal::{BPF_NOEXIST, accept_absent};
use crate::shared::clock::{boot_ns, nanoseconds};
use anyhow::{Context as _, Result};
use aya::maps::MapError;
use epguard_common::{Addr, Terminated};
use epguard_core::state::{OrphanIp, Tables};

impl Writer {
    /// Returns what the programs have lifted since the last call. The ring buffer reports a lift
    /// sooner but may be full; the map keeps each lift until its entry is removed.
    ///
    /// Errors: TERMINATED cannot be read.
    pub fn take_lifts(&mut self) -> Result<Vec<Lift>> {
        let mut lifts = std::mem::take(&mut self.lifts);
        for (ip, orphan_ip) in &mut self.installed.terminated {
            if orphan_ip.lifted.is_some() {
                continue;
            }
            let entry = match self.terminated.get(ip) {
                Err(MapError::KeyNotFound) => continue,
                entry => entry.context("cannot read TERMINATED")?,
            };
            orphan_ip.lifted = lifted_at(&entry);
            if let Some(lift) = lift_in(*ip, &entry)
                && !lifts.contains(&lift)
            {
                lifts.push(lift);
            }
        }
        Ok(lifts)
    }

    /// Whether installing this removes or overwrites what the programs may have lifted: first
    /// [`Writer::take_lifts`].
    pub fn replaces_terminated(&self, desired: &Tables) -> bool {
        self.installed.terminated != desired.terminated
    }

    pub(super) fn remove_terminated(&mut self, ip: Addr) -> Result<(), MapError> {
        let installed = self.installed.terminated.get(&ip);
        let is_lifted = installed.is_some_and(|orphan_ip| orphan_ip.lifted.is_some());
        if !is_lifted && let Ok(entry) = self.terminated.get(&ip) {
            self.lifts.extend(lift_in(ip, &entry));
        }
        accept_absent(self.terminated.remove(&ip))
    }

    pub(super) fn put_terminated(&mut self, ip: Addr, orphan_ip: OrphanIp) -> Result<(), MapError> {
        let just_taken_out = self
            .lifts
            .iter()
            .find(|lift| lift.ip == ip && lift.dead == orphan_ip.dead);
        let lifted = orphan_ip.lifted.or(just_taken_out.map(|lift| lift.at));
        let entry = Terminated {
            dead_uid: orphan_ip.dead,
            mode: orphan_ip.mode as u32,
            proven_ns: boot_ns(),
            lifted_ns: lifted.map_or(0, nanoseconds),
            range: orphan_ip.range,
            ..Terminated::default()
        };
        self.terminated.insert(ip, entry, BPF_NOEXIST)
    }
}
