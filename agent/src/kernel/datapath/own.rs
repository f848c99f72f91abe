//! Which programs are ours, where their names cannot be read.

use super::pins::{self, Pins};
use super::{bpf, links};
use anyhow::Result;
use std::collections::BTreeSet;

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
