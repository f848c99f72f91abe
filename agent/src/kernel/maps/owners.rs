//! OWNERS: there are as many as pods, so they are written a part at a time.

use super::Writer;
use epguard_common::{Addr, Owner};
use epguard_core::plan;
use std::collections::{BTreeMap, BTreeSet};

impl Writer {
    /// Writes the owners that changed, those of the restored ones that are other pods now, and at most so many of the rest.
    /// Returns how many found no room: they deny nothing, and no flow is redirected there.
    pub fn install_owners(
        &mut self,
        owners: &BTreeMap<Addr, Owner>,
        changed: &BTreeSet<Addr>,
        most: usize,
    ) -> usize {
        let mut stale = std::mem::take(&mut self.restored.owners);
        stale.retain(|ip, _| !changed.contains(ip));
        let is_same = |ip: &Addr, before: &Owner| owners.get(ip).is_some_and(|now| now.uid == before.uid);
        let replaced = stale.extract_if(.., |ip, before| !is_same(ip, before));
        let mut first: BTreeSet<Addr> = replaced.map(|(ip, _)| ip).collect();
        if let Some(rest) = stale.keys().nth(most).copied() {
            self.restored.owners = stale.split_off(&rest);
        }
        first.extend(stale.into_keys());
        plan::owners(owners, changed)
            .chain(plan::owners(owners, &first))
            .filter(|op| self.write(op).is_err())
            .count()
    }

    /// True if restored owners are still to be written.
    #[must_use]
    pub fn has_backlog(&self) -> bool {
        !self.restored.owners.is_empty()
    }
}
