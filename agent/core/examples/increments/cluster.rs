//! The cluster, and the facts that its watches report.

use epguard_common::{Addr, Mode, Uid, UidState};
use epguard_core::facts::{
    Change, Cidr, Fact, Name, Namespace, Node, OnDenial, Pod, PodName, PortName, Presence, Protocol, Sandbox,
    Service, ServicePort, Slice, SliceEndpoint, SlicePort,
};
use epguard_core::plan;
use epguard_core::state::{Ipam, Ranges, Settings, State, Tables};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub const NODES: usize = 5_000;
pub const PODS_OF_A_SERVICE: usize = 5;
const NAMESPACES: usize = 100;
/// As the agent has it.
const PART: usize = 512;
const OWNERS: usize = 2_048;
const PODS_OF_A_SLICE: usize = 100;

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
            node: node_name(0),
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
        let namespaces = (0..NAMESPACES).map(|number| Namespace {
            name: namespace_name(number),
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

    pub fn old(&self, number: usize) -> Pod {
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
        let slice = &mut self.slices[number / PODS_OF_A_SLICE];
        slice.endpoints.push(endpoint(pod));
        let changed = slice.clone();
        self.tell(Fact::Slice(Change::Applied(changed)))
    }

    pub fn unready(&mut self, pod: &Pod) -> Duration {
        self.change_slice(pod, |slice, at| slice.endpoints[at].ready = false)
    }

    pub fn unlist(&mut self, pod: &Pod) -> Duration {
        self.change_slice(pod, |slice, at| drop(slice.endpoints.remove(at)))
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
            let (owners, changed) = self.state.take_owners(OWNERS);
            std::hint::black_box(plan::owners(owners, &changed).count());
            self.state.take_touched(OWNERS);
        }
        let took = began.elapsed();
        self.longest = self.longest.max(took);
        took
    }
}

pub fn pending(pod: &Pod) -> Pod {
    Pod {
        ips: vec![],
        sandbox: Sandbox::Unsettled,
        ..pod.clone()
    }
}

pub fn deleting(pod: &Pod) -> Pod {
    Pod {
        deleting: true,
        ..pod.clone()
    }
}

pub fn dead(pod: &Pod) -> Pod {
    Pod {
        deleting: true,
        uid_state: UidState::Dead,
        sandbox: Sandbox::Unsettled,
        ..pod.clone()
    }
}

fn node_name(number: usize) -> String {
    format!("node-{number:04}")
}

fn namespace_name(number: usize) -> String {
    format!("namespace-{number:02}")
}

fn service_name(number: usize) -> Name {
    (
        namespace_name(number % NAMESPACES),
        format!("service-{number:05}"),
    )
}

fn octets(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or_default().to_be_bytes()
}

/// The first three octets of a node's range.
fn range(node: usize) -> [u8; 3] {
    let [_, a, b, c] = octets((11 << 16) + node);
    [a, b, c]
}

fn uid(kind: &str, number: usize, generation: u128) -> Uid {
    Uid::parse(&format!("{kind}-{number}-{generation}")).unwrap_or(Uid::NONE)
}

fn node(number: usize, boot: u128) -> Node {
    let [_, _, c, d] = octets(number);
    let [r1, r2, r3] = range(number);
    Node {
        name: node_name(number),
        addresses: vec![Addr::v4([192, 168, c, d])],
        pod_cidrs: Cidr::parse(&format!("{r1}.{r2}.{r3}.0/24")).into_iter().collect(),
        boot_id: uid("boot", number, boot),
        virtual_kubelet: false,
        canary: false,
        zone: None,
    }
}

fn service(number: usize) -> Service {
    let [_, b, c, d] = octets(number + 1);
    let name = service_name(number);
    Service {
        uid: uid("service", number, 0),
        selector: Some(BTreeMap::from([("app".to_owned(), name.1.clone())])),
        name,
        vips: vec![Addr::v4([172, 16 + b, c, d])],
        ports: vec![ServicePort {
            port: 80,
            node_port: 0,
            protocol: Protocol::Tcp,
        }],
        bound: Mode::Enforce,
        on_denial: OnDenial::default(),
    }
}

/// Pods of the first Service come first. The second generation runs on the next node.
fn pod(number: usize, large: usize, generation: u8) -> Pod {
    let of = if number < large {
        0
    } else {
        1 + (number - large) / PODS_OF_A_SERVICE
    };
    let at = number + usize::from(generation);
    let (on, offset) = (at % NODES, at / NODES + 22 * usize::from(generation));
    let [a, b, c] = range(on);
    let last = u8::try_from(offset + 2).unwrap_or_default();
    let (namespace, app) = service_name(of);
    Pod {
        uid: uid("pod", number, generation.into()),
        name: (namespace, format!("{app}-{number}-{generation}")),
        node: Some(node_name(on)),
        labels: BTreeMap::from([
            ("app".to_owned(), app),
            ("pod-template-hash".to_owned(), generation.to_string()),
        ]),
        ips: vec![Addr::v4([a, b, c, last])],
        sandbox: Sandbox::Published,
        bound: Mode::Enforce,
        ..Pod::default()
    }
}

fn endpoint(pod: &Pod) -> SliceEndpoint {
    SliceEndpoint {
        ip: pod.ips[0],
        target: Some(pod.uid),
        target_name: Some(PodName::of(pod)),
        ready: true,
    }
}

fn slices(pods: &BTreeMap<usize, Pod>, large: usize) -> Vec<Slice> {
    let (first, rest): (Vec<_>, Vec<_>) = pods.iter().partition(|(number, _)| **number < large);
    let slice = |pods: &[(&usize, &Pod)], number: usize| {
        let (namespace, app) = service_name(if *pods[0].0 < large {
            0
        } else {
            1 + (pods[0].0 - large) / PODS_OF_A_SERVICE
        });
        Slice {
            name: (namespace.clone(), format!("{app}-{number}")),
            service: Some((namespace, app)),
            endpoints: pods.iter().map(|(_, pod)| endpoint(pod)).collect(),
            ports: vec![SlicePort {
                name: PortName::new("http"),
                port: 8080,
                protocol: Protocol::Tcp,
            }],
            triggered: None,
        }
    };
    let of_first = first
        .chunks(PODS_OF_A_SLICE)
        .enumerate()
        .map(|(at, pods)| slice(pods, at));
    let of_rest = rest.chunks(PODS_OF_A_SERVICE).map(|pods| slice(pods, 0));
    of_first.chain(of_rest).collect()
}
