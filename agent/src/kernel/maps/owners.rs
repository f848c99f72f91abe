//! OWNERS: there are as many as pods, so they are written a part at a time.

use super::Writer;
use epguard_common::{Addr, Owner};
use epguard_core::plan;
use epguard_core::sorted_map::SortedMap;
use std::collections::BTreeSet;

impl Writer {
    /// Writes the owners that changed, those of the restored ones that are other pods now, and at most so many of the rest.
    /// Returns how many found no room: they deny nothing, and no flow is redirected there.
    pub fn install_owners(
        &mut self,
        owners: &SortedMap<Addr, Owner>,
        changed: &BTreeSet<Addr>,
        most: usize,
    ) -> usize {
        let mut written = BTreeSet::new();
        for (ip, before) in std::mem::take(&mut self.restored.owners) {
            let is_same = owners.get(&ip).is_some_and(|now| now.uid == before.uid);
            let stale = if is_same { &mut self.restored.kept_owners } else { &mut written };
            stale.insert(ip);
        }
        let kept = &mut self.restored.kept_owners;
        let rest = kept.iter().nth(most).copied();
        let rest = rest.map(|rest| kept.split_off(&rest)).unwrap_or_default();
        written.extend(std::mem::replace(kept, rest));
        written.retain(|ip| !changed.contains(ip));
        plan::owners(owners, changed)
            .chain(plan::owners(owners, &written))
            .filter(|op| self.write(op).is_err())
            .count()
    }

    /// True if restored owners are still to be written.
    #[must_use]
    pub fn has_backlog(&self) -> bool {
        !(self.restored.owners.is_empty() && self.restored.kept_owners.is_empty())
    }
}
