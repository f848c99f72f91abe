//! The cluster, and the facts that its watches report.

use crate::objects::{endpoint, namespaces, node, node_name, pod, service, slice_of, slices};
use epguard_common::Mode;
use epguard_core::facts::{Change, Fact, Namespace, Pod, Presence, Slice};
use epguard_core::plan;
use epguard_core::state::{Ipam, Ranges, Settings, State, Tables};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub const NODES: usize = 5_000;
pub const PODS_OF_A_SERVICE: usize = 5;
/// As the agent has it.
const PART: usize = 512;
const OWNERS: usize = 2_048;

pub struct Cluster {
    pub state: State,
    now: Duration,
    installed: Tables,
    slices: Vec<Slice>,
    pods: BTreeMap<usize, Pod>,
    longest: Duration,
}

impl Cluster {
    /// A synced agent. The first Service has `large` pods.
    pub fn new(services: usize, large: usize) -> Self {
        let settings = Settings {
            node: node_name(0).to_string(),
            ipam: Ipam::Auto,
            ranges: Ranges::default(),
        };
        let pods: BTreeMap<usize, Pod> = (0..large + services * PODS_OF_A_SERVICE)
            .map(|number| (number, pod(number, large, 0)))
            .collect();
        let mut cluster = Self {
            state: State::new(settings),
            now: Duration::from_secs(1_000),
            installed: Tables::default(),
            slices: slices(&pods, large),
            pods,
            longest: Duration::ZERO,
        };
        let namespaces = namespaces().map(|name| Namespace {
            name,
            bound: Mode::Enforce,
        });
        let lists = [
            Fact::Presence(Presence::Held(vec![])),
            Fact::Namespace(Change::Reset(namespaces.collect())),
            Fact::Node(Change::Reset((0..NODES).map(|number| node(number, 0)).collect())),
            Fact::Service(Change::Reset((0..=services).map(service).collect())),
            Fact::Slice(Change::Reset(cluster.slices.clone())),
            Fact::Pod(Change::Reset(cluster.pods.values().cloned().collect())),
        ];
        for list in lists {
            cluster.tell(list);
        }
        cluster
    }

    /// Applies the fact in as many turns as it needs, and plans the writes of each. Returns the time that it took.
    pub fn tell(&mut self, fact: Fact) -> Duration {
        self.now += Duration::from_millis(10);
        let began = Instant::now();
        self.state.begin(self.now, fact);
        let mut took = self.turned(began);
        while self.state.has_backlog() {
            let began = Instant::now();
            self.state.proceed(self.now, PART);
            took += self.turned(began);
        }
        took
    }

    /// One second passes.
    pub fn tick(&mut self) -> Duration {
        self.now += Duration::from_secs(1);
        let began = Instant::now();
        self.state.tick(self.now);
        self.turned(began)
    }

    /// The longest time in which nothing else could be done, since the last call.
    pub fn longest_turn(&mut self) -> Duration {
        std::mem::take(&mut self.longest)
    }

    pub fn reboot(&mut self, number: usize) -> Duration {
        let boot = self.now.as_millis();
        self.tell(Fact::Node(Change::Applied(node(number, boot))))
    }

    pub fn join(&mut self, number: usize) -> Duration {
        self.tell(Fact::Node(Change::Applied(node(number, 0))))
    }

    pub fn relist(&mut self) {
        let pods = self.pods.values().cloned().collect();
        self.tell(Fact::Pod(Change::Reset(pods)));
        let slices = self.slices.clone();
        self.tell(Fact::Slice(Change::Reset(slices)));
    }

    pub fn old(number: usize) -> Pod {
        let large = usize::MAX;
        pod(number, large, 0)
    }

    /// The pod that replaces another one, on another node.
    pub fn replacement(&mut self, number: usize) -> Pod {
        let new = pod(number, usize::MAX, 1);
        self.pods.insert(number, new.clone());
        new
    }

    pub fn list_pod(&mut self, number: usize, pod: &Pod) -> Duration {
        let slice = &mut self.slices[slice_of(number)];
        slice.endpoints.push(endpoint(pod));
        let changed = slice.clone();
        self.tell(Fact::Slice(Change::Applied(changed)))
    }

    pub fn unready(&mut self, pod: &Pod) -> Duration {
        self.change_slice(pod, |slice, at| slice.endpoints[at].ready = false)
    }

    pub fn unlist(&mut self, pod: &Pod) -> Duration {
        self.change_slice(pod, |slice, at| {
            slice.endpoints.remove(at);
        })
    }

    fn change_slice(&mut self, pod: &Pod, edit: impl FnOnce(&mut Slice, usize)) -> Duration {
        let at = |slice: &Slice| {
            slice
                .endpoints
                .iter()
                .position(|shown| shown.target == Some(pod.uid))
        };
        let found = self.slices.iter_mut().find_map(|slice| Some((at(slice)?, slice)));
        let Some((at, slice)) = found else {
            return Duration::ZERO;
        };
        edit(slice, at);
        let changed = slice.clone();
        self.tell(Fact::Slice(Change::Applied(changed)))
    }

    /// Plans what the agent writes at the end of a turn.
    fn turned(&mut self, began: Instant) -> Duration {
        if self.state.is_synced() {
            let changes = self.state.take_changes();
            for op in plan::tables_at(&self.installed, self.state.tables(), &changes) {
                op.apply(&mut self.installed);
            }
            let (owners, of) = self.state.take_owners(OWNERS);
            std::hint::black_box(plan::owners(owners, &of).count());
            self.state.take_touched(OWNERS, OWNERS);
        }
        let took = began.elapsed();
        self.longest = self.longest.max(took);
        took
    }
}
