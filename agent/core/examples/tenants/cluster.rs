//! The cluster, and the facts that its watches report.

use crate::objects::{Objects, namespaces, node_name, nodes, services, slices};
use epguard_core::facts::{Change, Fact, Presence};
use epguard_core::plan;
use epguard_core::state::{Ipam, Ranges, Settings, State, Tables};
use std::time::{Duration, Instant};

/// As the agent has it.
const PART: usize = 512;
const OWNERS: usize = 2_048;

pub struct Cluster {
    pub state: State,
    pub objects: Objects,
    now: Duration,
    installed: Tables,
    longest: Duration,
}

impl Cluster {
    /// An agent that is not synced.
    pub fn new() -> Self {
        let settings = Settings { node: node_name(0), ipam: Ipam::Auto, ranges: Ranges::default() };
        Self {
            state: State::new(settings),
            now: Duration::from_secs(1_000),
            installed: Tables::default(),
            longest: Duration::ZERO,
            objects: Objects::new(),
        }
    }

    /// Applies all lists.
    pub fn sync(&mut self) {
        let lists = [
            Fact::Presence(Presence::Held(vec![])),
            Fact::Namespace(Change::Reset(namespaces())),
            Fact::Node(Change::Reset(nodes())),
            Fact::Service(Change::Reset(services())),
            Fact::Slice(Change::Reset(slices())),
            Fact::Pod(Change::Reset(self.objects.pods())),
        ];
        for list in lists {
            self.apply(list);
        }
    }

    /// Applies the fact in as many turns as it needs, and plans the writes of each.
    pub fn apply(&mut self, fact: Fact) {
        self.now += Duration::from_millis(10);
        let began = Instant::now();
        self.state.begin_fact(self.now, fact);
        self.turned(began);
        while self.state.has_backlog() {
            let began = Instant::now();
            self.state.run_step(self.now, PART);
            self.turned(began);
        }
    }

    /// The longest time in which nothing else could be done, since the last call.
    pub fn longest_turn(&mut self) -> Duration {
        std::mem::take(&mut self.longest)
    }

    /// Plans what the agent writes at the end of a turn.
    fn turned(&mut self, began: Instant) {
        if self.state.is_synced() {
            let changes = self.state.take_changes();
            for op in plan::tables(&self.installed, self.state.tables(), &changes) {
                op.apply(&mut self.installed);
            }
            let (owners, of) = self.state.take_owners(OWNERS);
            std::hint::black_box(of.iter().filter_map(|ip| owners.get(ip)).count());
            self.state.take_touched(OWNERS, OWNERS);
        }
        self.longest = self.longest.max(began.elapsed());
    }
}
