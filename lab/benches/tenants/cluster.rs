//! The cluster, and the facts that its watches report.

use crate::objects::{Objects, State as PodState};
use crate::size::{self, BIG, Size};
use epguard_core::facts::{Change, Fact, Object, Presence};
use epguard_core::plan;
use epguard_core::state::{Ipam, Ranges, Settings, State, Tables};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// As the agent has it.
const PART: usize = 512;
const OWNERS: usize = 2_048;

const SIZE: Size = Size { name: "", pods: BIG + 10_000, services: 2_001, nodes: 5_000 };

pub(crate) struct Cluster {
    pub(crate) state: State,
    objects: Objects,
    now: Duration,
    installed: Tables,
    longest: Duration,
}

impl Cluster {
    /// An agent to which all lists were applied.
    pub(crate) fn synced() -> Self {
        let settings = Settings { node: size::node_name(0), ipam: Ipam::Auto, ranges: Ranges::default() };
        let mut cluster = Self {
            state: State::new(settings),
            now: Duration::from_secs(1_000),
            installed: Tables::default(),
            longest: Duration::ZERO,
            objects: Objects::new(SIZE),
        };
        let namespaces = size::namespaces().map(|name| json!({"metadata": {"name": name}}));
        let objects = &cluster.objects;
        let nodes = (0..SIZE.nodes).map(|node| objects.node(node));
        let services = (0..SIZE.services).map(|service| objects.service(service));
        let lists = [
            Fact::Presence(Presence::Held(vec![])),
            Fact::Namespace(list(namespaces)),
            Fact::Node(list(nodes)),
            Fact::Service(list(services)),
            Fact::Slice(list(objects.slices())),
            Fact::Pod(list(objects.pods())),
        ];
        for list in lists {
            cluster.apply(list);
        }
        cluster.longest_turn();
        cluster
    }

    /// A pod of the beginning.
    pub(crate) fn pod(&self, number: u32, state: PodState) -> Value {
        self.objects.pod(self.objects.own(number), state)
    }

    /// Applies the fact in as many turns as it needs, and plans the writes of each.
    pub(crate) fn apply(&mut self, fact: Fact) {
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
    pub(crate) fn longest_turn(&mut self) -> Duration {
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

fn list<O: Object>(objects: impl Iterator<Item = Value>) -> Change<O> {
    Change::Reset(objects.map(|object| read(&object)).collect())
}

/// An object as its watch reads it.
pub(crate) fn read<O: Object>(object: &Value) -> O {
    O::parse(object.to_string().as_bytes()).unwrap()
}
