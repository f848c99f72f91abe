//! What the programs have counted and reported.

use super::rig::Rig;
use aya::maps::{PerCpuArray, PerCpuValues, RingBuf};
use epguard::daemon::report::ring_buffer::Events;
use epguard_common::{Count, Event, Outcome, Reason, capacity, counter};
use std::collections::BTreeMap;

impl Rig {
    /// (packets, bytes) of every counter that isn't 0.
    pub fn counters(&mut self) -> BTreeMap<(Reason, Outcome), (u64, u64)> {
        let counts = self.counts().into_iter();
        counts
            .map(|(of, count)| (of, (count.packets, count.bytes)))
            .collect()
    }

    /// Every counter that isn't 0.
    pub fn counts(&mut self) -> BTreeMap<(Reason, Outcome), Count> {
        let map: PerCpuArray<_, Count> = self.map("COUNTERS").try_into().unwrap();
        let pairs = Reason::ALL
            .into_iter()
            .flat_map(|r| Outcome::ALL.map(|o| (r, o)));
        let sums = pairs.map(|(reason, outcome)| {
            let counts = map.get(&counter(reason, outcome), 0).unwrap();
            let sum = counts.iter().copied().fold(Count::default(), Count::plus);
            ((reason, outcome), sum)
        });
        sums.filter(|(_, sum)| *sum != Count::default()).collect()
    }

    pub fn forget_counters(&mut self) {
        let cpus = aya::util::nr_cpus().unwrap();
        let mut map: PerCpuArray<_, Count> = self.map("COUNTERS").try_into().unwrap();
        for index in 0..u32::try_from(capacity::COUNTERS).unwrap() {
            let zero = PerCpuValues::try_from(vec![Count::default(); cpus]).unwrap();
            map.set(index, zero, 0).unwrap();
        }
    }

    /// Takes the events that wait in the ring.
    pub fn events(&mut self) -> Vec<Event> {
        let mut ring = RingBuf::try_from(self.map("EVENTS")).unwrap();
        let mut events = Vec::new();
        while let Some(item) = ring.next() {
            events.push(
                epguard::daemon::report::ring_buffer::parse(&item)
                    .expect("an event of this version"),
            );
        }
        events
    }

    /// The agent's own reader of the ring, which is then its alone.
    pub fn reader(&mut self) -> Events {
        Events::new(self.ebpf()).unwrap()
    }
}
