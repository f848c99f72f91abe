//! FLOWS and RETURNS: the programs put flows in, and here they are taken out when nobody needs them any more.

use super::{absent, take};
use crate::clock::boot_ns;
use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{HashMap, MapData};
use epguard_common::{Flow, Return, Slot, Steered};
use std::collections::BTreeSet;

pub(super) struct Flows {
    steered: HashMap<MapData, Flow, Steered>,
    returns: HashMap<MapData, Flow, Return>,
    swept_ns: u64,
    in_use: BTreeSet<Slot>,
}

/// Between two looks at all flows: one of them costs some microseconds for each flow.
const PERIOD_NS: u64 = 10_000_000_000;

impl Flows {
    pub fn of(ebpf: &mut Ebpf) -> Result<Self> {
        Ok(Self {
            steered: take(ebpf, "FLOWS")?.try_into()?,
            returns: take(ebpf, "RETURNS")?.try_into()?,
            swept_ns: 0,
            in_use: BTreeSet::new(),
        })
    }

    /// Lets the next [`Flows::sweep`] look, however lately one did.
    pub fn look_again(&mut self) {
        self.swept_ns = 0;
    }

    /// Takes out what is over; the Services whose flows go on.
    pub fn sweep(&mut self) -> Result<&BTreeSet<Slot>> {
        let now_ns = boot_ns();
        if now_ns.saturating_sub(self.swept_ns) < PERIOD_NS {
            return Ok(&self.in_use);
        }
        self.swept_ns = now_ns;
        self.in_use.clear();
        let mut over = Vec::new();
        for entry in &self.steered {
            let (flow, steered) = entry.context("cannot read FLOWS")?;
            if steered.is_over(flow.protocol, now_ns) {
                over.push((flow, steered));
            } else {
                self.in_use.insert(flow.slot);
            }
        }
        for (flow, steered) in over {
            // It may have gone on meanwhile.
            if self
                .steered
                .get(&flow, 0)
                .is_ok_and(|now| now.used_ns != steered.used_ns)
            {
                continue;
            }
            absent(self.steered.remove(&flow)).context("cannot write FLOWS")?;
            absent(self.returns.remove(&flow.at(&steered.backend))).context("cannot write RETURNS")?;
        }
        Ok(&self.in_use)
    }
}
