//! What stands on the node beside kube-proxy, and the change from one to another.

use super::bed::{Bed, REUSED, STALE_SERVICE};
use super::epguard::Epguard;
use super::filters::Filter;
use super::stale;
use epguard_common::Mode;
use epguard_core::state::Tables;

/// What stands on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setup {
    Nothing,
    /// epguard with nothing to deny.
    Idle,
    /// epguard with the stale IPs.
    Active(Mode),
    /// The same, with XDP at the uplink.
    Xdp,
    Filter(Filter),
}

/// A node that has one setup at a time.
pub(crate) struct Stage {
    pub(crate) bed: Bed,
    pub(crate) epguard: Epguard,
    tables: Tables,
    now: Setup,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let bed = Bed::new();
        Self {
            epguard: Epguard::new(&bed),
            bed,
            tables: stale::tables(&[(STALE_SERVICE, REUSED)]),
            now: Setup::Nothing,
        }
    }

    /// Changes the node to this setup.
    pub(crate) fn set(&mut self, setup: Setup) {
        match self.now {
            Setup::Nothing => {}
            Setup::Idle | Setup::Active(_) | Setup::Xdp => self.epguard.unhook(),
            Setup::Filter(filter) => filter.remove(&self.bed),
        }
        match setup {
            Setup::Nothing => {}
            Setup::Idle => self.epguard.hook(Mode::Enforce, &Tables::default()),
            Setup::Active(mode) => self.epguard.hook(mode, &self.tables),
            Setup::Xdp => {
                self.epguard.hook(Mode::Enforce, &self.tables);
                self.epguard.hook_xdp();
            }
            Setup::Filter(filter @ Filter::NftablesForward) => filter.add(&self.bed, &[*REUSED.ip()]),
            Setup::Filter(filter) => filter.add(&self.bed, &[]),
        }
        self.now = setup;
    }
}
