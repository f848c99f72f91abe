//! Which programs at the interfaces are ours: those that this process has loaded, and those that an earlier one left.

use super::hook::Hook;
use super::pins::{self, Pins};
use super::{Datapath, bpf, clsact, links, netlink, node};
use anyhow::{Context as _, Result};
use std::collections::BTreeSet;

impl Datapath {
    /// Ids of our programs. Those of an earlier process are known by its pinned links, of any ABI version, and by its
    /// clsact filters.
    pub fn own_programs(&self) -> Result<BTreeSet<u32>> {
        let mut own = BTreeSet::from(self.programs);
        own.extend(pinned(&self.pins)?);
        for ifindex in node::interfaces().context("cannot list interfaces")? {
            for hook in Hook::ALL {
                // An interface that has gone since has no filters.
                let filters = netlink::filters(ifindex, hook).unwrap_or_default().into_iter();
                own.extend(
                    filters
                        .filter(|filter| clsact::is_ours(filter, hook))
                        .filter_map(|filter| filter.program),
                );
            }
        }
        Ok(own)
    }
}

/// Ids of the programs in pinned links.
pub fn pinned(pins: &Pins) -> Result<BTreeSet<u32>> {
    let mut programs = BTreeSet::new();
    for version in pins.versions(false)? {
        for path in pins::list(&version.join("links"))? {
            programs.extend(links::open(&path)?.and_then(|link| bpf::link_program(&link).ok()));
        }
    }
    Ok(programs)
}
