//! The cluster and its API as one: what each operation of a history does to them.

use super::*;
use std::collections::BTreeSet;

/// Namespaces and labels of pods; the last one is the crowd's.
pub const APPS: [(&str, &str); 4] = [
    ("shop", "web"),
    ("other", "api"),
    ("shop", "pg"),
    (CROWD, CROWD),
];
pub const MODES: [Option<&str>; 3] = [None, Some("observe"), Some("off")];

/// A pod of node-b has it, though it is in node-a's range.
const FAR: Ip = Ip::four([10, 244, 1, 99]);

pub struct World {
    pub setup: Setup,
    /// Nothing but pods, nodes and writers of slices does anything.
    pub faultless: bool,
    pub services: [Service; 4],
    pub cluster: Cluster,
    pub objects: Objects,
    pub api: Api,
    /// The typed side of the API's backup.
    pub backup: Option<Objects>,
    /// IPs that something else than a pod has, or had.
    pub spared: BTreeSet<Ip>,
    /// Denials of dead pods in force when an agent ended: VIP, IP, UID.
    pub kept: BTreeSet<(Ip, Ip, [u8; 16])>,
    /// A pod has other labels than it had.
    pub has_relabelled: bool,
    /// Services that had slices written by hand.
    pub listed_by_hand: BTreeSet<&'static str>,
    /// Services of which a denial met a packet, and was found wrong.
    pub convicted: BTreeSet<&'static str>,
    /// The crowd's Namespace has asked for no more than `observe`, which a restore of etcd may
    /// bring back.
    pub crowd_is_bound: bool,
    /// What goes on by itself.
    pub agenda: Agenda,
    /// Nodes that went, or came.
    pub turned: BTreeSet<usize>,
    /// When the model began; its seconds count from there.
    began: Instant,
    uids: usize,
}

impl World {
    pub fn new(setup: Setup, faultless: bool) -> Self {
        let mut world = Self {
            setup,
            faultless,
            services: services(setup.front, setup.pg),
            cluster: Cluster::new(setup.ipam, setup.kubelets),
            objects: Objects::default(),
            api: Api::new(),
            backup: None,
            spared: BTreeSet::new(),
            kept: BTreeSet::new(),
            has_relabelled: false,
            listed_by_hand: BTreeSet::new(),
            convicted: BTreeSet::new(),
            crowd_is_bound: false,
            agenda: Agenda::default(),
            turned: BTreeSet::new(),
            began: Instant::now(),
            uids: 0,
        };
        (0..3).for_each(|number| world.write_node(number));
        for name in ["shop", "other"] {
            world
                .api
                .store()
                .put(NAMESPACES, name, namespace(name, None));
        }
        (0..4).for_each(|number| world.write_service(number));
        world.add_crowd();
        if setup.ipam == Ipam::ClusterDespiteRanges {
            world.disprove_ranges();
        }
        world
    }

    /// Seconds since the model began, and a day.
    pub fn second(&self) -> u64 {
        3_600 + self.began.elapsed().as_secs()
    }

    /// The same by the clock of a pod's node.
    pub fn clock(&self, index: usize) -> u64 {
        self.second() + self.cluster.clocks[self.cluster.pods[index].node]
    }

    /// Carries an operation out on the cluster and its API. Those of the agent are not for here.
    pub fn take(&mut self, op: &Op) {
        match *op {
            Op::Create(app, node, number) => drop(self.create(app, node, number)),
            Op::Run(app, node, number, ip) => {
                if let Some(pod) = self.create(app, node, number) {
                    self.step(pod, ip);
                    self.step(pod, ip);
                }
            }
            Op::Bring(app, node, number, ip) => {
                if let Some(pod) = self.create(app, node, number) {
                    self.step(pod, ip);
                }
            }
            Op::End(pod) => self.with_pod(pod, |world, pod| {
                let kubelet = world.cluster.kubelets[world.cluster.pods[pod].node];
                if kubelet == Kubelet::Virtual {
                    world.fail_early(pod);
                } else {
                    world.finish(pod);
                    world.step(pod, 0);
                }
            }),
            Op::Step(pod, ip) => self.with_pod(pod, |world, pod| world.step(pod, ip)),
            Op::Finish(pod) => self.with_pod(pod, Self::finish),
            Op::Delete(pod) => self.with_pod(pod, Self::delete),
            Op::Force(pod) => self.with_pod(pod, Self::force),
            Op::PodGc(pod) => self.with_pod(pod, Self::collect),
            Op::FailEarly(pod) => self.with_pod(pod, Self::fail_early),
            Op::LoseSandbox(pod) => self.with_pod(pod, Self::lose_sandbox),
            Op::Relabel(pod, app) => self.with_pod(pod, |world, pod| {
                world.has_relabelled = true;
                world.relabel(pod, APPS[app].1);
            }),
            Op::Rewrite(pod) => self.with_pod(pod, Self::rewrite),
            Op::Pull(pod) => self.with_pod(pod, Self::pull),
            Op::Cut(node, cut) => {
                self.cluster.cut[node] = cut || self.cluster.ranges[node].is_none();
            }
            Op::Node(number, range) => self.turn_node(number, range),
            Op::Clock(node, wrong) => self.cluster.clocks[node] = wrong,
            Op::Address(owner, ip) => self.turn_address(owner, ip),
            Op::Flood(how, times, every) => {
                self.flood(how, times.into(), Duration::from_millis(every.into()));
            }
            Op::RollOut(app, node, pace) => {
                self.roll_out(app, node, Duration::from_millis(pace.into()));
            }
            Op::Sync(service) => self.write_slice(self.services[service]),
            Op::Custom(service, pod, how) => {
                self.with_pod(pod, |world, pod| {
                    let service = world.services[service];
                    world.listed_by_hand.insert(service.name);
                    world.list_by_hand(service, pod, how);
                });
            }
            Op::DropCustom(service) => self.unlist_by_hand(self.services[service]),
            Op::Annotate(name, mode) => self.annotate(["shop", "other"][name], MODES[mode]),
            Op::Lag(kind, lag) => {
                self.api.store().kinds[kind].lag = Duration::from_millis(lag.into());
            }
            Op::Stall(kind) => self.api.store().kinds[kind].stalled = true,
            Op::Flow => self.flow(),
            Op::Break(kind) => self.api.store().break_streams(kind),
            Op::Compact(kind) => {
                let mut store = self.api.store();
                store.compact();
                store.break_streams(kind);
            }
            Op::Outage(away) => self.outage(away),
            Op::Backup => {
                self.api.store().back_up();
                self.backup = Some(self.objects.clone());
            }
            Op::Restore(back) => self.restore(back),
            Op::Restart(_) | Op::Netlink(_) | Op::Call => {}
        }
    }

    /// A node is deleted, and what runs there is over; or one comes, with a range that is free.
    fn turn_node(&mut self, number: usize, range: u8) {
        let now = self.second();
        self.turned.insert(number);
        let taken = self.cluster.ranges.contains(&Some(range));
        if self.cluster.ranges[number].take().is_some() {
            for index in 0..self.cluster.pods.len() {
                let pod = &mut self.cluster.pods[index];
                if pod.node == number && pod.namespace != "infra" {
                    (pod.wanted, pod.over) = (false, true);
                    self.cluster.sandbox_down(index, now);
                }
            }
        } else {
            self.cluster.ranges[number] = Some(if taken { range + 2 } else { range });
        }
        self.cluster.cut[number] = self.cluster.ranges[number].is_none();
        self.write_node(number);
    }

    /// A Service or Node has an IP of the pods' from now on, or no more.
    fn turn_address(&mut self, owner: usize, ip: Ip) {
        if self.objects.addresses.remove(&owner).is_none() {
            self.objects.addresses.insert(owner, ip);
            self.spared.insert(ip);
        }
        match owner.checked_sub(4) {
            None => self.write_service(owner),
            Some(node) => self.write_node(node),
        }
    }

    fn write_service(&self, number: usize) {
        let service = &self.services[number];
        let more: Vec<Ip> = self
            .objects
            .addresses
            .get(&number)
            .copied()
            .into_iter()
            .collect();
        let key = key(service.namespace, service.name);
        self.api.store().put(SERVICES, &key, service.json(&more));
    }

    pub fn write_node(&self, number: usize) {
        let more: Vec<Ip> = self
            .objects
            .addresses
            .get(&(4 + number))
            .copied()
            .into_iter()
            .collect();
        let name = NODE_NAMES[number];
        let mut store = self.api.store();
        match node(&self.cluster, number, &more) {
            Some(object) => store.put(NODES, name, object),
            None => store.remove(NODES, name, serde_json::json!({"metadata": {"name": name}})),
        }
    }

    /// Streams go on, without delay.
    pub fn flow(&mut self) {
        let mut store = self.api.store();
        for kind in &mut store.kinds {
            (kind.lag, kind.stalled) = (Duration::ZERO, false);
        }
        store.wake();
    }

    /// Notes the Services that are only observed. One whose denials met no packet cannot be.
    pub fn note_convicted(&mut self, convicted: &BTreeSet<(String, String)>) {
        for service in self.services {
            if convicted.contains(&(service.namespace.to_owned(), service.name.to_owned())) {
                self.convicted.insert(service.name);
            }
        }
    }

    pub fn outage(&mut self, away: bool) {
        let mut store = self.api.store();
        if store.up == away {
            store.up = !away;
            store.break_all();
        }
    }

    /// A pod whose sandbox may be up, or whose object the API has, by a number; the newest ones
    /// first.
    fn with_pod(&mut self, number: usize, then: impl FnOnce(&mut Self, usize)) {
        let concerns = |pod: &Pod| pod.sandbox.is_some() || self.objects.pod_of(&pod.uid).is_some();
        let known: Vec<usize> = (0..self.cluster.pods.len())
            .rev()
            .filter(|index| {
                concerns(&self.cluster.pods[*index])
                    && self.cluster.pods[*index].namespace != "infra"
            })
            .collect();
        if !known.is_empty() {
            then(self, known[number % known.len()]);
        }
    }

    fn create(&mut self, app: usize, node: usize, number: usize) -> Option<usize> {
        let (namespace, app) = APPS[app];
        let name = format!("{app}-{number}");
        let is_known = self.objects.pods.contains_key(&(namespace, name.clone()));
        if is_known || self.cluster.ranges[node].is_none() {
            return None;
        }
        self.uids += 1;
        let uid = format!("uid-{}", self.uids);
        Some(self.add(namespace, name, uid, app, node))
    }

    fn add(
        &mut self,
        namespace: &'static str,
        name: String,
        uid: String,
        app: &'static str,
        node: usize,
    ) -> usize {
        let now = self.second() + self.cluster.clocks[node];
        let (kubelet, knows) = match self.cluster.kubelets[node] {
            Kubelet::Current | Kubelet::Virtual => ("kubelet", true),
            Kubelet::Old => ("kubelet", false),
            Kubelet::OneBinary => ("k3s", true),
        };
        let families = FAMILIES[self.setup.families[node]];
        let host_port = self.setup.host_port == Some(app);
        let object = PodObject {
            uid: uid.clone(),
            app,
            node,
            phase: "Pending",
            phase_by: kubelet,
            kubelet,
            ip: None,
            ready: false,
            sandbox: knows.then_some((false, now)),
            container: Container::Waiting(0),
            deleting: false,
            families,
            attached: vec![],
            owner: OWNERS[self.setup.owner].map(|kind| (kind, app)),
            host_port,
            has_been_pulled: false,
        };
        self.cluster.pods.push(Pod {
            uid,
            namespace,
            name: name.clone(),
            app,
            node,
            sandbox: None,
            families,
            attached: (self.setup.networks > 0 && app != "far").then_some(SECOND[0]),
            host_port,
            since: now,
            wanted: true,
            over: false,
            revived: false,
        });
        self.show((namespace, name), object);
        self.cluster.pods.len() - 1
    }

    /// A pod of node-b that shows an IP of node-a's range, for good.
    fn disprove_ranges(&mut self) {
        let index = self.add("infra", "far".into(), "uid-far".into(), "far", 1);
        self.cluster.pods[index].sandbox = Some(FAR);
        let id = ("infra", "far".to_owned());
        let mut object = self.objects.pods[&id].clone();
        object.ip = Some(FAR);
        object.phase = "Running";
        object.sandbox = Some((true, 0));
        object.container = Container::Running(1);
        self.show(id, object);
    }

    fn annotate(&mut self, name: &'static str, mode: Option<&'static str>) {
        match mode {
            Some(mode) => self.objects.modes.insert(name, mode),
            None => self.objects.modes.remove(name),
        };
        self.api
            .store()
            .put(NAMESPACES, name, namespace(name, mode));
    }

    /// Writes a pod's object; writers of slices that keep up follow.
    pub fn show(&mut self, id: (&'static str, String), object: PodObject) {
        let before = self.objects.pods.get(&id).map(|before| before.app);
        let namespace = id.0;
        let app = object.app;
        self.show_phase(id, object);
        for app in before.into_iter().chain([app]) {
            self.follow(namespace, app);
        }
    }

    /// Writes a pod's object, of which only the phase is new: no writer of slices looks at that
    /// (`endpointslice/util:podEndpointsChanged`).
    pub fn show_phase(&mut self, id: (&'static str, String), object: PodObject) {
        let json = object.json(id.0, &id.1);
        self.api.store().put(PODS, &key(id.0, &id.1), json);
        self.objects.pods.insert(id, object);
    }

    /// Writers of slices that keep up with a pod.
    pub fn follow(&mut self, namespace: &str, app: &str) {
        if self.setup.follow {
            let concerned = |service: &Service| {
                let of = if service.writer == Writer::Controller {
                    service.selects
                } else {
                    Some(service.name)
                };
                service.namespace == namespace && of == Some(app)
            };
            let services = self.services.into_iter().filter(concerned);
            services.for_each(|service| self.write_slice(service));
        }
    }
}

pub fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}
