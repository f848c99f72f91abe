//! The cluster, and the facts that its watches report.

use crate::objects::{Objects, State as PodState};
use crate::other::Other;
use crate::size::{self, BIG, Size};
use epguard_core::facts::{Change, Cidr, Fact, Object, Presence, Routes};
use epguard_core::plan;
use epguard_core::state::{Ipam, Ranges, Settings, State, Tables};
use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::mem::take;
use std::rc::Rc;
use std::time::Duration;

/// As the agent has it.
const PART: usize = 512;
const OWNERS: usize = 2_048;

const SIZE: Size = Size {
    name: "",
    pods: BIG + 10_000,
    services: 2_001,
    nodes: 5_000,
};

#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) state: State,
    objects: Rc<Objects>,
    now: Duration,
    installed: Tables,
    longest: Duration,
    other: Other,
    waits: Vec<f64>,
}

/// What the facts since [`Cluster::rests`] cost, in ms.
pub(crate) struct Cost {
    /// The longest time in which nothing else could be done.
    pub(crate) longest: f64,
    /// From the receipt of each fact about the other namespace to its tables.
    pub(crate) waits: Vec<f64>,
}

impl Cluster {
    /// An agent to which all lists were applied.
    pub(crate) fn synced() -> Self {
        let settings = Settings {
            node: size::node_name(0),
            ipam: Ipam::Auto,
            ranges: Ranges::default(),
        };
        let objects = Rc::new(Objects::new(SIZE));
        let mut cluster = Self {
            state: State::new(settings),
            now: Duration::from_secs(1_000),
            installed: Tables::default(),
            longest: Duration::ZERO,
            other: Other::new(&objects),
            waits: Vec::new(),
            objects: Rc::clone(&objects),
        };
        let namespaces = size::namespaces().chain(["tenant".to_owned()]);
        let namespaces = namespaces.map(|name| json!({"metadata": {"name": name}}));
        let nodes = (0..SIZE.nodes).map(|node| objects.node(node));
        let services = (0..SIZE.services).map(|service| objects.service(service));
        let lists = [
            Fact::Presence(Presence::Routes(Routes::new(&Cidr::ALL, []))),
            Fact::Namespace(list(namespaces)),
            Fact::Node(list(nodes)),
            Fact::Service(list(services)),
            Fact::Slice(list(objects.slices())),
            Fact::Pod(list(objects.pods())),
        ];
        for list in lists {
            cluster.take_in(list);
        }
        let ends = cluster.other.ends();
        cluster.take_in(ends);
        assert!(
            cluster.other.is_denied(cluster.state.tables()),
            "the other namespace has a denial"
        );
        cluster.rests();
        cluster
    }

    /// A pod of the beginning.
    pub(crate) fn pod(&self, number: u32, state: PodState) -> Value {
        self.objects.pod(self.objects.own(number), state)
    }

    /// Applies a fact of the tenant, and one about the other namespace that comes right after it.
    pub(crate) fn apply(&mut self, fact: Fact) {
        self.apply_after(Duration::from_millis(10), fact);
    }

    /// The same so long after the fact before.
    pub(crate) fn apply_after(&mut self, pause: Duration, fact: Fact) {
        let second = self.now.as_secs();
        self.now += pause;
        if self.now.as_secs() > second {
            self.turn(State::begin_tick);
        }
        let received = worked();
        self.begin(fact);
        let fact = self.other.flips();
        self.begin(fact);
        while self.other.is_denied(self.state.tables()) == self.other.is_held() {
            assert!(
                self.state.has_backlog(),
                "the fact about the other namespace has no effect"
            );
            self.step();
        }
        self.waits
            .push(worked().saturating_sub(received).as_secs_f64() * 1e3);
        while self.state.has_backlog() {
            self.step();
        }
    }

    /// Forgets what the facts cost so far.
    pub(crate) fn rests(&mut self) {
        self.cost();
    }

    /// What the facts cost since the last call.
    pub(crate) fn cost(&mut self) -> Cost {
        Cost {
            longest: take(&mut self.longest).as_secs_f64() * 1e3,
            waits: take(&mut self.waits),
        }
    }

    /// How many denials the tenant has.
    pub(crate) fn denials(&self) -> usize {
        let denied = self.state.tables().denied.keys();
        denied.filter(|key| key.addr != self.other.ip()).count()
    }

    fn take_in(&mut self, fact: Fact) {
        self.begin(fact);
        while self.state.has_backlog() {
            self.step();
        }
    }

    /// Begins to apply a fact. A list is applied to its end: further facts of the API wait for
    /// that.
    fn begin(&mut self, fact: Fact) {
        self.turn(|state, now| state.begin_fact(now, fact));
        while self.state.is_half_applied() {
            self.step();
        }
    }

    fn step(&mut self) {
        self.turn(|state, now| {
            state.run_step(now, PART);
        });
    }

    /// Does something, and plans what the agent writes at the end of a turn.
    fn turn(&mut self, act: impl FnOnce(&mut State, Duration)) {
        let began = worked();
        act(&mut self.state, self.now);
        if self.state.is_synced() {
            let changes = self.state.take_changes();
            for op in plan::tables(&self.installed, self.state.tables(), &changes) {
                op.apply(&mut self.installed);
            }
            let (owners, of) = self.state.take_owners(OWNERS);
            std::hint::black_box(of.iter().filter_map(|ip| owners.get(ip)).count());
            self.state.take_ips_to_record(OWNERS, OWNERS);
        }
        self.longest = self.longest.max(worked().saturating_sub(began));
    }
}

/// How long this thread has worked: what else the machine does takes none of that.
fn worked() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .unwrap()
        .into()
}

fn list<O: Object>(objects: impl Iterator<Item = Value>) -> Change<O> {
    Change::Reset(objects.map(|object| read(&object)).collect())
}

/// An object as its watch reads it.
pub(crate) fn read<O: Object>(object: &Value) -> O {
    O::parse(object.to_string().as_bytes()).unwrap()
}
