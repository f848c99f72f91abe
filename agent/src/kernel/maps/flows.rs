//! The maps of redirected flows: the programs add flows, and this module removes those that are
//! over.

use super::keyed::KeyedMap;
use super::pinned::take_map;
use super::refusal::accept_absent;
use crate::shared::clock::boot_ns;
use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{HashMap, MapData};
use epguard_common::{ALL_CLIENTS, Addr, Flow, Redirected, Return, capacity};
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Flows {
    /// FLOWS (proven), and OPENING (opening or closed).
    tables: [FlowTable; 2],
    clients: HashMap<MapData, Addr, u32>,
    swept_ns: u64,
    may_go_on: bool,
    /// Whether the last sweep was the first that found no flow.
    ending: bool,
    proven: usize,
}

/// Two maps of the same flows: by the client's side, and by the endpoint's.
struct FlowTable {
    name: &'static str,
    redirected: KeyedMap<Flow, Redirected>,
    returns: KeyedMap<Flow, Return>,
}

/// Least time between two sweeps: a sweep takes some microseconds for each flow.
const PERIOD_NS: u64 = 10_000_000_000;

impl Flows {
    pub fn take_from(ebpf: &mut Ebpf) -> Result<Self> {
        Ok(Self {
            tables: [
                FlowTable::take_from(ebpf, "FLOWS", "RETURNS")?,
                FlowTable::take_from(ebpf, "OPENING", "OPENING_RETURNS")?,
            ],
            clients: take_map(ebpf, "CLIENTS")?,
            swept_ns: 0,
            may_go_on: false,
            ending: false,
            proven: 0,
        })
    }

    /// Makes the next [`Flows::sweep`] read all flows, even if the last one did so lately.
    pub fn sweep_soon(&mut self) {
        self.swept_ns = 0;
    }

    /// Whether the last [`Flows::sweep`] found any flow, proven or not.
    pub const fn go_on(&self) -> bool {
        self.may_go_on
    }

    /// How many proven flows the last [`Flows::sweep`] found.
    pub const fn proven(&self) -> usize {
        self.proven
    }

    /// Removes flows that are over. True if others go on.
    pub fn sweep(&mut self) -> Result<bool> {
        let now_ns = boot_ns();
        if now_ns.saturating_sub(self.swept_ns) < PERIOD_NS {
            return Ok(self.may_go_on);
        }
        self.swept_ns = now_ns;
        let [proven, opening] = &mut self.tables;
        // In this order: a flow whose handshake is proven meanwhile is in FLOWS before it leaves
        // OPENING.
        let opening = opening.sweep(now_ns)?;
        let proven = proven.sweep(now_ns)?;
        let go_on = !proven.is_empty() || !opening.is_empty();
        // One that closes meanwhile goes the other way, and may be in neither: the next sweep
        // decides.
        self.ending = !go_on && self.may_go_on && !self.ending;
        if self.ending {
            self.sweep_soon();
        } else {
            self.may_go_on = go_on;
        }
        self.proven = proven.len();
        self.count_again(&proven)?;
        Ok(self.may_go_on)
    }

    /// Writes how many proven flows each client has, and all together, since processors that race
    /// miscount a little.
    fn count_again(&mut self, proven: &BTreeSet<Flow>) -> Result<()> {
        let mut counts: BTreeMap<Addr, u32> = BTreeMap::new();
        for flow in proven {
            *counts.entry(flow.client).or_default() += 1;
        }
        for (client, count) in counts
            .iter()
            .filter(|(_, count)| **count >= capacity::FLOWS_PER_CLIENT)
        {
            tracing::warn!(client = %client.ip(), count, "a client has used up its share of redirected connections: a flood may reset its next ones");
        }
        let all = u32::try_from(proven.len()).unwrap_or(u32::MAX);
        counts.insert(ALL_CLIENTS, all);
        let known: Vec<Addr> = self.clients.keys().flatten().collect();
        for client in known.iter().filter(|client| !counts.contains_key(client)) {
            accept_absent(self.clients.remove(client)).context("cannot write CLIENTS")?;
        }
        for (client, count) in counts {
            if self.clients.get(&client, 0).ok() != Some(count) {
                // A full map has no room for a client whose flows the kernel counts anew.
                let _ = self.clients.insert(client, count, 0);
            }
        }
        Ok(())
    }
}

impl FlowTable {
    fn take_from(ebpf: &mut Ebpf, name: &'static str, returns: &'static str) -> Result<Self> {
        Ok(Self {
            name,
            redirected: take_map(ebpf, name)?,
            returns: take_map(ebpf, returns)?,
        })
    }

    /// Removes flows that are over; returns those that go on.
    fn sweep(&mut self, now_ns: u64) -> Result<BTreeSet<Flow>> {
        let mut on = BTreeSet::new();
        let mut over = Vec::new();
        // If the key that was read last is removed, the kernel begins the list anew.
        for entry in self.redirected.iter().take(2 * capacity::OPENING) {
            let (flow, redirected) = entry.with_context(|| format!("cannot read {}", self.name))?;
            if redirected.is_over(flow.protocol, now_ns) {
                over.push((flow, redirected));
            } else {
                on.insert(flow);
            }
        }
        for (flow, redirected) in over {
            // The flow may have gone on since it was listed.
            let now = self.redirected.get(&flow);
            if now.is_ok_and(|now| now.used_ns != redirected.used_ns) {
                continue;
            }
            accept_absent(self.redirected.remove(&flow))
                .with_context(|| format!("cannot write {}", self.name))?;
            let behind = flow.with_live_endpoint(&redirected.backend);
            // A later flow of the client's port may have taken the place.
            if self
                .returns
                .get(&behind)
                .is_ok_and(|back| behind.with_denied_endpoint(&back) == flow)
            {
                accept_absent(self.returns.remove(&behind))
                    .with_context(|| format!("cannot write the returns of {}", self.name))?;
            }
        }
        Ok(on)
    }
}
