//! A Deployment whose pods are replaced all the time, Jobs of another namespace that get the IPs
//! that are free, and the agent's state.

use super::Rollout;
use epguard_common::{Addr, Mode, Uid, UidState};
use epguard_core::facts::{
    Change, Cidr, Fact, Namespace, Node, NodeSeen, ObjectName, Part, Pod, PortName, Presence,
    Protocol, Routes, Sandbox, Selection, Service, ServicePort, Slice, SliceEndpoint, SlicePort,
    Text, Watched,
};
use epguard_core::state::{Settings, State};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Clients may use an endpoint for so long after its pod's end.
const USED: Duration = Duration::from_mins(1);
/// A Job's pod takes a free IP after this time, and has it for so long.
const FREE: Duration = Duration::from_secs(4);
const JOB: Duration = Duration::from_secs(20);

/// How often a denial was in force.
#[derive(Default)]
pub(super) struct Share {
    on: u32,
    all: u32,
}

impl Share {
    pub(super) fn percent(&self) -> f64 {
        100.0 * f64::from(self.on) / f64::from(self.all)
    }

    fn count(&mut self, on: bool) {
        self.on += u32::from(on);
        self.all += 1;
    }
}

/// A pod with the moments of its life.
struct Life {
    pod: Pod,
    ip: Addr,
    bound: Duration,
    /// Since when the kubelet shows its IP.
    shown: Option<Duration>,
    deleted: Option<Duration>,
}

pub(super) struct Cluster {
    state: State,
    now: Duration,
    settings: Rollout,
    nodes: u8,
    has_ranges: bool,
    /// The API's objects and what runs, by UID.
    pods: BTreeMap<Uid, Life>,
    /// Pods of which the next rollout replaces all that are older.
    generation: u64,
    made: u64,
    /// When each IP became free.
    free: BTreeMap<Addr, Duration>,
    /// When the Service's last pod at each IP died.
    died: BTreeMap<Addr, Duration>,
    /// Lists that the agent has asked for, and when each is answered.
    asked: Vec<(Duration, Watched, Option<Selection>)>,
    pub(super) reused: Share,
    pub(super) dead: Share,
}

impl Cluster {
    /// On so many nodes; with ranges of theirs, or one pool.
    pub(super) fn new(settings: &Rollout, nodes: u8, has_ranges: bool) -> Self {
        let own = Settings {
            node: "n0".into(),
            ..Settings::default()
        };
        let mut cluster = Self {
            state: State::new(own),
            now: Duration::ZERO,
            settings: *settings,
            nodes,
            has_ranges,
            pods: BTreeMap::new(),
            generation: 0,
            made: 0,
            free: BTreeMap::new(),
            died: BTreeMap::new(),
            asked: Vec::new(),
            reused: Share::default(),
            dead: Share::default(),
        };
        let nodes = (0..nodes).map(|number| cluster.node(number)).collect();
        let namespaces = ["shop", "jobs"].map(|name| Namespace {
            name: name.into(),
            bound: Mode::Enforce,
        });
        for fact in [
            Fact::Namespace(Change::Reset(namespaces.into())),
            Fact::Node(Change::Reset(nodes)),
            Fact::Service(Change::Reset(vec![service()])),
            Fact::Slice(Change::Reset(vec![cluster.slice()])),
            Fact::Pod(Change::Reset(vec![])),
            Fact::Presence(Presence::Routes(Routes::new(&Cidr::ALL, []))),
        ] {
            cluster.tell(fact);
        }
        for _ in 0..settings.pods {
            let uid = cluster.bind("shop");
            cluster.show(uid);
        }
        if settings.is_one_stuck {
            cluster.bind("shop");
        }
        cluster.generation = cluster.made;
        cluster
    }

    /// Lets time pass up to a moment, then looks at what is denied.
    pub(super) fn step(&mut self, now: Duration) {
        self.now = now;
        self.run_kubelets();
        self.roll();
        self.run_jobs();
        self.answer();
        if now.subsec_millis() == 0 {
            self.state.tick(now);
            let lists = self.state.take_second_lists(now).into_iter();
            let due = now + Duration::from_millis(200);
            self.asked
                .extend(lists.map(|list| (due, list.kind, list.selection)));
        }
        self.look();
    }

    /// Pods get their IPs shown, and those that were deleted end.
    fn run_kubelets(&mut self) {
        let now = self.now;
        let wait = |life: &Life| {
            Duration::from_secs(if life.pod.name.namespace == *"jobs" {
                2
            } else {
                self.settings.seconds_to_ip
            })
        };
        let is_stuck =
            |uid: &Uid| self.settings.is_one_stuck && number(uid) == self.settings.pods as u64 + 1;
        let ready: Vec<Uid> = (self.pods.iter())
            .filter(|(uid, life)| {
                life.shown.is_none() && now >= life.bound + wait(life) && !is_stuck(uid)
            })
            .map(|(uid, _)| *uid)
            .collect();
        for uid in ready {
            self.show(uid);
        }
        let ended: Vec<Uid> = (self.pods.iter())
            .filter(|(_, life)| {
                life.deleted
                    .is_some_and(|at| now >= at + Duration::from_secs(1))
            })
            .map(|(uid, _)| *uid)
            .collect();
        for uid in ended {
            self.end(uid);
        }
    }

    /// The Deployment's controller: keeps so many ready, and a surge of new ones.
    fn roll(&mut self) {
        let is_new = |life: &&Life| number(&life.pod.uid) > self.generation;
        let own = || {
            self.pods
                .values()
                .filter(|life| life.pod.name.namespace == *"shop" && life.deleted.is_none())
        };
        let all = own().count();
        let ready = own().filter(|life| life.shown.is_some()).count();
        let stuck = usize::from(self.settings.is_one_stuck);
        let old = own()
            .find(|life| life.shown.is_some() && !is_new(life))
            .map(|life| life.pod.uid);
        match old {
            None => self.generation = self.made,
            Some(old) if ready > self.settings.pods => self.delete(old),
            Some(_) if all - stuck < self.settings.pods + self.settings.surge => {
                self.bind("shop");
            }
            Some(_) => {}
        }
    }

    /// Jobs of another namespace take IPs that the Service's pods had.
    fn run_jobs(&mut self) {
        let now = self.now;
        let over: Vec<Uid> = self
            .pods
            .values()
            .filter(|life| {
                life.pod.name.namespace == *"jobs"
                    && life.deleted.is_none()
                    && life.shown.is_some_and(|at| now >= at + JOB)
            })
            .map(|life| life.pod.uid)
            .collect();
        for uid in over {
            self.delete(uid);
        }
        let is_due = |ip: &Addr, at: &Duration| self.died.contains_key(ip) && now >= *at + FREE;
        let due = self
            .free
            .iter()
            .filter(|(ip, at)| is_due(ip, at))
            .map(|(ip, _)| *ip)
            .next();
        if let Some(ip) = due {
            self.bind_at("jobs", ip);
        }
    }

    /// A pod is created and bound, and its sandbox has an IP: one that was never used, or else the
    /// one that is free for longest.
    fn bind(&mut self, namespace: &str) -> Uid {
        let node = u8::try_from(self.made % u64::from(self.nodes)).unwrap();
        let of_node = |ip: &Addr| !self.has_ranges || ip.octets[14] == node;
        let used =
            |ip: &Addr| self.pods.values().any(|life| life.ip == *ip) || self.free.contains_key(ip);
        let pool = (10..40 + self.settings.pods / 2)
            .map(|host| Addr::v4([10, 244, node, u8::try_from(host).unwrap()]));
        let fresh = pool.into_iter().find(|ip| !used(ip));
        let oldest = self
            .free
            .iter()
            .filter(|(ip, _)| of_node(ip))
            .min_by_key(|(_, at)| **at)
            .map(|(ip, _)| *ip);
        self.bind_at(namespace, fresh.or(oldest).unwrap())
    }

    fn bind_at(&mut self, namespace: &str, ip: Addr) -> Uid {
        self.free.remove(&ip);
        // The Service's own has the IP: what was stale there is right.
        if namespace == "shop" {
            self.died.remove(&ip);
        }
        let node = if self.has_ranges {
            ip.octets[14]
        } else {
            u8::try_from(self.made % u64::from(self.nodes)).unwrap()
        };
        self.made += 1;
        let mut uid = Uid::NONE;
        uid.octets[8..].copy_from_slice(&self.made.to_be_bytes());
        uid.octets[0] = 1;
        let pod = Pod {
            uid,
            name: ObjectName::new(namespace, format!("pod-{}", self.made)),
            node: Some(format!("n{node}").as_str().into()),
            labels: [("app", namespace)].into_iter().collect(),
            bound: Mode::Enforce,
            sandbox: Sandbox::Unsettled,
            ..Pod::default()
        };
        self.tell(Fact::Pod(Change::Applied(pod.clone())));
        self.pods.insert(
            uid,
            Life {
                pod,
                ip,
                bound: self.now,
                shown: None,
                deleted: None,
            },
        );
        uid
    }

    fn show(&mut self, uid: Uid) {
        let now = self.now;
        let Some(life) = self.pods.get_mut(&uid) else {
            return;
        };
        life.shown = Some(now);
        life.pod.ips = vec![life.ip];
        life.pod.sandbox = Sandbox::Published;
        let pod = life.pod.clone();
        self.tell(Fact::Pod(Change::Applied(pod)));
        self.list();
    }

    fn delete(&mut self, uid: Uid) {
        let now = self.now;
        let Some(life) = self.pods.get_mut(&uid) else {
            return;
        };
        life.deleted = Some(now);
        life.pod.deleting = true;
        let pod = life.pod.clone();
        self.tell(Fact::Pod(Change::Applied(pod)));
    }

    fn end(&mut self, uid: Uid) {
        let Some(mut life) = self.pods.remove(&uid) else {
            return;
        };
        life.pod.uid_state = UidState::Dead;
        life.pod.sandbox = Sandbox::Unsettled;
        self.tell(Fact::Pod(Change::Applied(life.pod.clone())));
        self.free.insert(life.ip, self.now);
        if life.pod.name.namespace == *"shop" {
            self.died.insert(life.ip, self.now);
            self.list();
        }
        self.tell(Fact::Pod(Change::Deleted(life.pod)));
    }

    /// The endpoints controller brings the slice up to date.
    fn list(&mut self) {
        let slice = self.slice();
        self.tell(Fact::Slice(Change::Applied(slice)));
    }

    /// The API server answers what the agent has asked for.
    fn answer(&mut self) {
        while let Some((name, _)) = self.state.take_node_check(self.now) {
            let number: u8 = name[1..].parse().unwrap();
            let uid = self.node(number).uid;
            self.tell(Fact::NodeSeen(NodeSeen {
                name,
                uid,
                at: self.now,
            }));
        }
        let now = self.now;
        for (due, kind, selection) in std::mem::take(&mut self.asked) {
            if due > now {
                self.asked.push((due, kind, selection));
                continue;
            }
            let pods = || self.pods.values().map(|life| life.pod.clone());
            let fact = match (kind, selection) {
                (Watched::Pods, None) => Fact::Pod(Change::Reset(pods().collect())),
                (Watched::Pods, Some(selection)) => {
                    let objects = pods().filter(|pod| selection.has_pod(pod)).collect();
                    Fact::Pod(Change::Part(part(now, selection, objects)))
                }
                (_, None) => Fact::Slice(Change::Reset(vec![self.slice()])),
                (_, Some(selection)) => {
                    Fact::Slice(Change::Part(part(now, selection, vec![self.slice()])))
                }
            };
            self.tell(fact);
        }
    }

    /// Notes of each IP at which the Service's last pod is dead whether it is denied.
    fn look(&mut self) {
        let now = self.now;
        self.died.retain(|_, at| now < *at + USED);
        let tables = self.state.tables();
        for ip in self.died.keys() {
            let mut denials = tables
                .denied
                .iter()
                .filter(|(key, denial)| key.addr == *ip && denial.stopped == 0);
            let is_denied = denials.next().is_some() && !tables.services.is_empty();
            let holder = self.pods.values().find(|life| life.ip == *ip);
            match holder {
                None => self.dead.count(is_denied),
                // Before it shows the IP, the stranger is denied as nobody is.
                Some(stranger) if stranger.shown.is_none() => self.dead.count(is_denied),
                Some(_) => self.reused.count(is_denied),
            }
        }
    }

    fn slice(&self) -> Slice {
        let listed = self
            .pods
            .values()
            .filter(|life| life.pod.name.namespace == *"shop" && life.shown.is_some());
        let endpoints = listed.map(|life| SliceEndpoint {
            ip: life.ip,
            target: Some(life.pod.uid),
            ready: life.deleted.is_none(),
        });
        Slice {
            name: ObjectName::new("shop", "web-1"),
            service: Some(ObjectName::new("shop", "web")),
            namespaces: [Text::from("shop")].into(),
            endpoints: endpoints.collect(),
            ports: vec![SlicePort {
                name: PortName::new("http"),
                port: 8080,
                protocol: Protocol::Tcp,
            }],
            partial: false,
            foreign: false,
            triggered: None,
        }
    }

    fn node(&self, number: u8) -> Node {
        let range = Cidr::parse(&format!("10.244.{number}.0/24")).unwrap();
        let mut uid = Uid::NONE;
        uid.octets[15] = number + 1;
        Node {
            name: format!("n{number}").as_str().into(),
            uid,
            addresses: vec![Addr::v4([192, 168, 0, number + 1])],
            pod_cidrs: if self.has_ranges { vec![range] } else { vec![] },
            boot_id: uid,
            virtual_kubelet: false,
            canary: false,
            zone: None,
        }
    }

    fn tell(&mut self, fact: Fact) {
        self.state.apply(self.now, fact);
    }
}

fn service() -> Service {
    Service {
        uid: Uid { octets: [7; 16] },
        name: ObjectName::new("shop", "web"),
        vips: vec![Addr::v4([10, 96, 0, 1])],
        ports: vec![ServicePort {
            port: 80,
            node_port: 0,
            protocol: Protocol::Tcp,
        }],
        selector: Some([("app", "shop")].into_iter().collect()),
        bound: Mode::Enforce,
        ..Service::default()
    }
}

fn part<T>(sent: Duration, selection: Selection, objects: Vec<T>) -> Part<T> {
    Part {
        selection,
        sent,
        objects,
        later: BTreeSet::new(),
    }
}

/// The number of a pod, by its UID.
fn number(uid: &Uid) -> u64 {
    u64::from_be_bytes(*uid.octets.last_chunk().unwrap())
}
