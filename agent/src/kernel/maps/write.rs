//! Single writes to the maps, and those that the kernel refuses: it has no room for an entry, or
//! has none to remove.

use super::Writer;
use anyhow::{Context as _, Result};
use aya::maps::MapError;
use epguard_common::{Addr, DenialKey, Owner, RawRole, Role};
use epguard_core::plan::Op;
use epguard_core::sorted_map::SortedMap;
use nix::libc;
use std::collections::BTreeSet;
use std::io::ErrorKind;

/// Flag of a map update: only a key that is not there.
pub(super) const BPF_NOEXIST: u64 = 1;

impl Writer {
    /// Writes to a map. An entry that finds no room is left out, together with an older one of the
    /// same key, and tried again with the next change. Ending the agent would not help: its
    /// successor would meet the same full map.
    pub(super) fn write_or_leave_out(&mut self, op: &Op) -> Result<(), MapError> {
        let written = self.write(op);
        let Some(removal) = op
            .removal()
            .filter(|_| written.as_ref().is_err_and(is_full))
        else {
            written?;
            op.apply(&mut self.installed);
            return Ok(());
        };
        self.left_out += 1;
        op.add_key_to(&mut self.to_retry);
        self.write(&removal)?;
        removal.apply(&mut self.installed);
        Ok(())
    }

    /// Keeps entries of BACKENDS that have a new endpoint for the next change.
    pub(super) fn keep_new_backends(&mut self, ops: &mut Vec<Op>) {
        let there = &self.installed.backends;
        let is_new = |op: &mut Op| {
            let Op::Backends(key, Some(backends)) = op else {
                return false;
            };
            there.get(key).is_none_or(|known| {
                backends
                    .all()
                    .iter()
                    .any(|backend| !known.contains(backend))
            })
        };
        for op in ops.extract_if(.., is_new) {
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
                absent(self.denied.remove(key))?;
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
            Op::Owner(ip, None) => absent(self.owners.remove(ip)),
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
        let mut written = BTreeSet::new();
        for (ip, before) in std::mem::take(&mut self.restored_owners) {
            let is_same = owners.get(&ip).is_some_and(|now| now.uid == before.uid);
            let stale = if is_same {
                &mut self.kept_owners
            } else {
                &mut written
            };
            stale.insert(ip);
        }
        let rest = self.kept_owners.iter().nth(most).copied();
        let rest = rest
            .map(|rest| self.kept_owners.split_off(&rest))
            .unwrap_or_default();
        written.extend(std::mem::replace(&mut self.kept_owners, rest));
        written.retain(|ip| !changed.contains(ip));
        let ops = changed
            .iter()
            .chain(&written)
            .map(|ip| Op::Owner(*ip, owners.get(ip).copied()));
        ops.filter(|op| self.write(op).is_err()).count()
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
            None => absent(self.interfaces.remove(&ifindex)),
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

/// The map has its most entries, or the kernel no memory for another one.
pub(super) fn is_full(error: &MapError) -> bool {
    let MapError::SyscallError(error) = error else {
        return false;
    };
    matches!(
        error.io_error.raw_os_error(),
        Some(libc::E2BIG | libc::ENOMEM)
    )
}

/// Accepts the removal of an entry that another process has removed already.
pub(super) fn absent(result: Result<(), MapError>) -> Result<(), MapError> {
    match result {
        Err(MapError::KeyNotFound) => Ok(()),
        Err(MapError::SyscallError(error)) if error.io_error.kind() == ErrorKind::NotFound => {
            Ok(())
        }
        other => other,
    }
}
