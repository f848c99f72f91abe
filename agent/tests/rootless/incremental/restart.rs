//! A new process that takes over the maps, and lists everything.

use super::*;
use epguard_core::plan::{self, Op};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// What the maps hold, written by the plan's operations alone.
#[derive(Default)]
pub struct Maps {
    pub tables: Tables,
    pub owners: BTreeMap<Addr, Owner>,
    /// Owners of the process before, which are still to be compared.
    stale_owners: BTreeSet<Addr>,
    /// Keys that the process has removed.
    removed: Vec<Op>,
    /// All numbers that any process has written, and their Services. VIEW holds the greatest.
    given: BTreeMap<ServiceNumber, ObjectName>,
}

impl Maps {
    /// Writes what changed, once the state has judged everything; before, takes out what a fact
    /// speaks against.
    pub fn install(&mut self, state: &mut State) {
        if !state.is_synced() {
            if let Some((kept, changes)) = state.take_contradicted() {
                for op in plan::tables(&self.tables, kept, &changes) {
                    op.apply(&mut self.tables);
                }
            }
            return;
        }
        let changes = state.take_changes();
        for op in plan::tables(&self.tables, state.tables(), &changes) {
            self.note_number(state, &op);
            self.write(&op);
        }
        let (owners, mut ips) = state.take_owners(usize::MAX);
        ips.append(&mut self.stale_owners);
        for ip in ips {
            self.write(&Op::Owner(ip, owners.get(&ip).copied()));
        }
    }

    /// A denial that an earlier process left, though a Service with its VIP selects a live pod with
    /// the IP.
    fn left_wrongly(&self, state: &State) -> Option<&DenialKey> {
        let is_wrong = |key: &&DenialKey| {
            let vips = self
                .tables
                .services
                .iter()
                .filter(|(_, number)| **number == key.service);
            let addrs: BTreeSet<Addr> = vips.map(|(vip, _)| vip.addr).collect();
            let mut services = state
                .cluster()
                .services
                .values()
                .filter(|service| service.vips.iter().any(|addr| addrs.contains(addr)));
            services.any(|service| {
                state
                    .live_claimants(key.addr)
                    .any(|record| service.selects(&record.pod))
            })
        };
        self.tables.denied.keys().find(is_wrong)
    }

    fn note_number(&mut self, state: &State, op: &Op) {
        let number = match op {
            Op::Service(_, Some(number)) => *number,
            Op::Denial(key, Some(_)) => key.service,
            _ => return,
        };
        let service = state.numbers().service(number).unwrap();
        let first = self.given.entry(number).or_insert_with(|| service.clone());
        assert_eq!(first, service, "{number:?} is given twice");
    }

    fn write(&mut self, op: &Op) {
        match op {
            Op::Owner(ip, None) => {
                self.owners.remove(ip);
            }
            Op::Owner(ip, Some(owner)) => {
                self.owners.insert(*ip, *owner);
            }
            Op::Terminated(ip, Some(_)) => {
                let before = self.tables.terminated.get(ip);
                assert_eq!(before, None, "what the programs wrote is overwritten");
            }
            Op::Denial(_, None) | Op::Service(_, None) | Op::Suspect(_, None) => {
                self.removed.push(op.clone());
            }
            _ => {}
        }
        op.apply(&mut self.tables);
    }

    /// Keys that were removed and are there again.
    fn put_back(&self) -> Vec<&Op> {
        let Tables {
            suspects,
            services,
            denied,
            ..
        } = &self.tables;
        self.removed
            .iter()
            .filter(|op| match op {
                Op::Denial(key, _) => denied.contains_key(key),
                Op::Service(vip, _) => services.contains_key(vip),
                Op::Suspect(ip, _) => suspects.contains_key(ip),
                _ => false,
            })
            .collect()
    }
}

impl Run {
    /// Starts another process, which lists everything in this order.
    pub fn restart(&mut self, settings: Settings, lists: &[Step]) -> Result<(), TestCaseError> {
        let last = self.maps.given.keys().next_back();
        let numbers = Numbers::after(last.map_or(0, |last| last.number));
        self.world.state = State::with_numbers(settings, numbers).with_piece(self.piece);
        self.world.state.restore(self.maps.tables.clone());
        self.maps.stale_owners = self.maps.owners.keys().copied().collect();
        self.maps.removed.clear();
        self.apply(Fact::LocalAddresses(self.cluster.local.clone()))?;
        self.apply(routes_to(&[]))?;
        for step in lists {
            for fact in self.cluster.take(step) {
                self.apply(fact)?;
                if !self.world.state.is_synced() {
                    let left = self.maps.left_wrongly(&self.world.state);
                    prop_assert!(left.is_none(), "{left:?}");
                }
            }
        }
        let put_back = self.maps.put_back();
        prop_assert!(
            put_back.is_empty(),
            "removed and written again: {put_back:?}"
        );
        Ok(())
    }
}
