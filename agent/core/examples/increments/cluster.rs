//! The cluster, and the facts that its watches report.

use crate::objects::{Objects, ServiceShape, Shape, node, node_name};
use epguard_core::facts::{Change, Fact, Pod, PodName, Presence, Slice, SliceEndpoint};
use epguard_core::plan;
use epguard_core::state::{Ipam, Ranges, Settings, State, Tables};
use std::time::{Duration, Instant};

pub const NODES: usize = 5_000;
pub const PODS_OF_A_SERVICE: usize = 5;
const PODS_OF_A_SLICE: usize = 100;
/// As the agent has it.
const PART: usize = 512;
const OWNERS: usize = 2_048;

pub struct Cluster {
    pub state: State,
    pub objects: Objects,
    now: Duration,
    installed: Tables,
    slices: Vec<Slice>,
    pods: Vec<Pod>,
    longest: Duration,
}

impl Cluster {
    /// An agent that is not synced. The first Service has `large` pods.
    pub fn new(services: usize, large: usize) -> Self {
        let objects = Objects::new(Shape {
            nodes: NODES,
            namespaces: 100,
            pods: large + services * PODS_OF_A_SERVICE,
            first: ServiceShape {
                pods: large,
                pods_per_slice: PODS_OF_A_SLICE,
            },
            others: ServiceShape {
                pods: PODS_OF_A_SERVICE,
                pods_per_slice: PODS_OF_A_SERVICE,
            },
            keeps_ips: false,
        });
        let settings = Settings {
            node: node_name(0),
            ipam: Ipam::Auto,
            ranges: Ranges::default(),
        };
        Self {
            state: State::new(settings),
            now: Duration::from_secs(1_000),
            installed: Tables::default(),
            slices: objects.slices(0),
            pods: objects.pods(0),
            longest: Duration::ZERO,
            objects,
        }
    }

    /// Applies all lists.
    pub fn sync(&mut self) -> Duration {
        let lists = [
            Fact::Presence(Presence::Held(vec![])),
            Fact::Namespace(Change::Reset(self.objects.namespaces())),
            Fact::Node(Change::Reset(self.objects.nodes())),
            Fact::Service(Change::Reset(self.objects.services())),
            Fact::Slice(Change::Reset(self.slices.clone())),
            Fact::Pod(Change::Reset(self.pods.clone())),
        ];
        lists.map(|list| self.apply(list)).iter().sum()
    }

    /// Applies the fact in as many turns as it needs, and plans the writes of each. Returns the time that it took.
    pub fn apply(&mut self, fact: Fact) -> Duration {
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
        self.apply(Fact::Node(Change::Applied(node(number, boot))))
    }

    pub fn join(&mut self, number: usize) -> Duration {
        self.apply(Fact::Node(Change::Applied(node(number, 0))))
    }

    pub fn relist(&mut self) -> Duration {
        let (pods, slices) = (self.pods.clone(), self.slices.clone());
        self.apply(Fact::Pod(Change::Reset(pods))) + self.apply(Fact::Slice(Change::Reset(slices)))
    }

    /// The pod that replaces another one, on another node.
    pub fn replacement(&mut self, number: usize) -> Pod {
        self.pods[number] = self.objects.pod(number, 1);
        self.pods[number].clone()
    }

    pub fn list_pod(&mut self, number: usize, pod: &Pod) -> Duration {
        let slice = &mut self.slices[number / PODS_OF_A_SLICE];
        slice.endpoints.push(SliceEndpoint {
            ip: pod.ips[0],
            target: Some(pod.uid),
            target_name: Some(PodName::of(pod)),
            ready: true,
        });
        let changed = slice.clone();
        self.apply(Fact::Slice(Change::Applied(changed)))
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
        self.apply(Fact::Slice(Change::Applied(changed)))
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
