//! Single writes to the maps, and those that the kernel has no room for.

use super::Writer;
use crate::kernel::maps::refusal::{accept_absent, is_full};
use anyhow::{Context as _, Result};
use aya::maps::MapError;
use epguard_common::{Addr, DenialKey, Owner, RawRole, Role};
use epguard_core::plan::Op;
use epguard_core::sorted_map::SortedMap;
use epguard_core::state::Tables;
use std::collections::BTreeSet;

impl Writer {
    /// Writes to a map. An entry that finds no room is left out, together with an older one of the
    /// same key, and tried again with the next change. Ending the agent would not help: its
    /// successor would meet the same full map.
    pub(super) fn write_or_leave_out(&mut self, op: &Op) -> Result<(), MapError> {
        match self.write(op) {
            Ok(()) => {
                tracing::debug!(?op, "written");
                op.apply(&mut self.installed);
                Ok(())
            }
            Err(error) if is_full(&error) => {
                let Some(removal) = op.removal() else {
                    return Err(error);
                };
                tracing::debug!(?op, "left out: the map is full");
                self.left_out += 1;
                op.add_key_to(&mut self.to_retry);
                self.write(&removal)?;
                removal.apply(&mut self.installed);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Keeps entries of BACKENDS that have a new endpoint for the next change.
    pub(super) fn keep_new_backends(&mut self, ops: &mut Vec<Op>) {
        let installed = &self.installed;
        for op in ops.extract_if(.., |op| adds_backend(op, installed)) {
            op.add_key_to(&mut self.to_retry);
        }
    }

    pub(super) fn write(&mut self, op: &Op) -> Result<(), MapError> {
        match op {
            Op::Denial(key, Some(denial)) => {
                self.counts.begin(key)?;
                self.denied.insert(*key, *denial, 0)
            }
            Op::Denial(key, None) => {
                accept_absent(self.denied.remove(key))?;
                self.counts.end(&self.installed, key)
            }
            Op::Terminated(ip, Some(orphan_ip)) => {
                self.counts.begin(&DenialKey::of_ip(*ip))?;
                self.put_terminated(*ip, *orphan_ip)
            }
            Op::Terminated(ip, None) => {
                self.remove_terminated(*ip)?;
                self.counts.end(&self.installed, &DenialKey::of_ip(*ip))
            }
            Op::Backends(key, backends) => self.backends.put(*key, backends.as_deref().copied()),
            Op::Service(vip, number) => self.services.put(*vip, *number),
            Op::Suspect(ip, suspect) => self.suspects.put(*ip, *suspect),
            Op::Owner(ip, Some(owner)) => self.owners.insert(ip, owner, 0),
            Op::Owner(ip, None) => accept_absent(self.owners.remove(ip)),
        }
    }

    /// Writes the owners that changed, those of the restored ones that are other pods now, and at
    /// most so many of the rest: there are as many as pods. Returns how many found no room: they
    /// deny nothing, and no flow is redirected there.
    pub fn install_owners(
        &mut self,
        owners: &SortedMap<Addr, Owner>,
        changed: &BTreeSet<Addr>,
        most: usize,
    ) -> usize {
        let mut to_write = BTreeSet::new();
        for (ip, before) in std::mem::take(&mut self.restored_owners) {
            let is_same = owners.get(&ip).is_some_and(|now| now.uid == before.uid);
            if is_same {
                self.kept_owners.insert(ip);
            } else {
                to_write.insert(ip);
            }
        }
        for _ in 0..most {
            let Some(ip) = self.kept_owners.pop_first() else {
                break;
            };
            to_write.insert(ip);
        }
        to_write.retain(|ip| !changed.contains(ip));
        let mut left_out = 0;
        for ip in changed.iter().chain(&to_write) {
            let written = self.write(&Op::Owner(*ip, owners.get(ip).copied()));
            left_out += usize::from(written.is_err());
        }
        left_out
    }

    /// Sets what INTERFACES holds of an interface; `None` if it is gone. Packets that lead to an
    /// interface without a role pass.
    ///
    /// Errors: a map cannot be written.
    pub fn set_role(&mut self, ifindex: u32, role: Option<RawRole>) -> Result<()> {
        if role.and_then(RawRole::role).is_some_and(Role::hands_on) {
            // The programs look up the role of an interface before they judge what leaves there,
            // from now on.
            self.view.change(|view| view.relays = 1)?;
        }
        match role {
            Some(role) => self.interfaces.insert(ifindex, role, 0),
            None => accept_absent(self.interfaces.remove(&ifindex)),
        }
        .with_context(|| format!("cannot write INTERFACES for {ifindex}"))
    }

    /// Removes interfaces that went while no agent ran: their numbers may come again.
    pub fn retain_roles(&mut self, is_there: impl Fn(u32) -> bool) {
        let known: Vec<u32> = self.interfaces.keys().flatten().collect();
        for ifindex in known.into_iter().filter(|ifindex| !is_there(*ifindex)) {
            if let Err(error) = self.set_role(ifindex, None) {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "the role of an interface that is gone stays"
                );
            }
        }
    }
}

/// Whether the operation redirects flows to an endpoint to which none were redirected before.
fn adds_backend(op: &Op, installed: &Tables) -> bool {
    let Op::Backends(key, Some(backends)) = op else {
        return false;
    };
    let Some(before) = installed.backends.get(key) else {
        return true;
    };
    backends
        .all()
        .iter()
        .any(|backend| !before.contains(backend))
}
