//! The cluster and its API as one: what each operation of a history does to them.

use crate::cluster::{Cluster, Ip, Ipam, Kubelet, Pod};
use crate::history::{Op, Setup};
use crate::objects::{
    ALL_SERVICES, Container, NAMESPACES, NODES, Objects, PODS, PodObject, SERVICES, namespace, node,
};
use crate::server::Api;
use crate::story::Story;
use std::time::Duration;
use tokio::time::Instant;

pub const APPS: [(&str, &str); 3] = [("shop", "web"), ("other", "api"), ("shop", "pg")];
pub const MODES: [Option<&str>; 3] = [None, Some("observe"), Some("off")];

pub struct World {
    pub setup: Setup,
    pub cluster: Cluster,
    pub objects: Objects,
    pub api: Api,
    pub story: Story,
    /// The typed side of the API's backup.
    pub backup: Option<Objects>,
    /// When the model began; its seconds count from there.
    began: Instant,
    uids: usize,
}

impl World {
    pub fn new(setup: Setup) -> Self {
        let mut world = Self {
            setup,
            cluster: Cluster::new(setup.ipam, setup.kubelets),
            objects: Objects::default(),
            api: Api::new(),
            story: Story::default(),
            backup: None,
            began: Instant::now(),
            uids: 0,
        };
        for number in [0, 1] {
            let object = node(&world.cluster, number);
            world
                .api
                .store()
                .put(NODES, crate::objects::NODE_NAMES[number], object);
        }
        for name in ["shop", "other"] {
            world.api.store().put(NAMESPACES, name, namespace(name, None));
        }
        for service in ALL_SERVICES {
            let mut object = service.json();
            if service.publishes_unready {
                object["spec"]["publishNotReadyAddresses"] = true.into();
            }
            world
                .api
                .store()
                .put(SERVICES, &key(service.namespace, service.name), object);
        }
        if setup.ipam == Ipam::ClusterDespiteRanges {
            world.disprove_ranges();
        }
        world
    }

    /// Seconds since the model began, and a day.
    pub fn second(&self) -> u64 {
        3_600 + self.began.elapsed().as_secs()
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
                world.finish(pod);
                world.step(pod, 0);
            }),
            Op::Step(pod, ip) => self.with_pod(pod, |world, pod| world.step(pod, ip)),
            Op::Finish(pod) => self.with_pod(pod, Self::finish),
            Op::Delete(pod) => self.with_pod(pod, Self::delete),
            Op::Force(pod) => self.with_pod(pod, Self::force),
            Op::PodGc(pod) => self.with_pod(pod, Self::collect),
            Op::FailEarly(pod) => self.with_pod(pod, Self::fail_early),
            Op::LoseSandbox(pod) => self.with_pod(pod, Self::lose_sandbox),
            Op::Relabel(pod, app) => self.with_pod(pod, |world, pod| world.relabel(pod, APPS[app].1)),
            Op::Cut(node, cut) => self.cluster.cut[node] = cut,
            Op::Sync(service) => self.write_slice(&ALL_SERVICES[service]),
            Op::Custom(service, pod, foreign) => {
                self.with_pod(pod, |world, pod| {
                    world.list_by_hand(&ALL_SERVICES[service], pod, foreign);
                });
            }
            Op::DropCustom(service) => self.unlist_by_hand(&ALL_SERVICES[service]),
            Op::Annotate(name, mode) => self.annotate(["shop", "other"][name], MODES[mode]),
            Op::Lag(kind, lag) => self.api.store().kinds[kind].lag = Duration::from_millis(lag.into()),
            Op::Stall(kind) => {
                self.story.note(&format!("events of kind {kind} are held back"));
                self.api.store().kinds[kind].stalled = true;
            }
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
                self.story.note("etcd is backed up");
            }
            Op::Restore(back) => self.restore(back),
            Op::Restart(_) | Op::Netlink(_) => {}
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

    pub fn outage(&mut self, away: bool) {
        let mut store = self.api.store();
        if store.up == away {
            store.up = !away;
            store.break_all();
            self.story.step(if away { "api: away" } else { "api: back" });
        }
    }

    /// A pod whose sandbox may be up, or whose object the API has, by a number; the newest ones first.
    fn with_pod(&mut self, number: usize, then: impl FnOnce(&mut Self, usize)) {
        let concerns = |pod: &Pod| pod.sandbox.is_some() || self.objects.pod_of(&pod.uid).is_some();
        let known: Vec<usize> = (0..self.cluster.pods.len())
            .rev()
            .filter(|index| {
                concerns(&self.cluster.pods[*index]) && self.cluster.pods[*index].namespace != "infra"
            })
            .collect();
        if !known.is_empty() {
            then(self, known[number % known.len()]);
        }
    }

    fn create(&mut self, app: usize, node: usize, number: usize) -> Option<usize> {
        let (namespace, app) = APPS[app];
        let name = format!("{app}-{number}");
        if self.objects.pods.contains_key(&(namespace, name.clone())) {
            return None;
        }
        self.uids += 1;
        let uid = format!("uid-{}", self.uids);
        self.story
            .pod(&uid, namespace, &name, app, node, self.cluster.kubelets[node]);
        self.story.pod_step(&uid, "scheduled");
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
        let now = self.second();
        let (kubelet, knows) = match self.cluster.kubelets[node] {
            Kubelet::Current => ("kubelet", true),
            Kubelet::Old => ("kubelet", false),
            Kubelet::OneBinary => ("k3s", true),
        };
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
            container: Container::Waiting,
            deleting: false,
            replica: self.setup.replicas && app == "pg",
        };
        self.cluster.pods.push(Pod {
            uid,
            namespace,
            name: name.clone(),
            node,
            sandbox: None,
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
        self.cluster.pods[index].sandbox = Some(Ip([10, 244, 1, 99]));
        let id = ("infra", "far".to_owned());
        let mut object = self.objects.pods[&id].clone();
        object.ip = Some(Ip([10, 244, 1, 99]));
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
        self.api.store().put(NAMESPACES, name, namespace(name, mode));
        self.story
            .note(&format!("namespace {name}: epguard.io/mode {mode:?}"));
    }

    /// Writes a pod's object; writers of slices that keep up follow.
    pub fn show(&mut self, id: (&'static str, String), object: PodObject) {
        let before = self.objects.pods.get(&id).map(|before| before.app);
        let (namespace, app) = (id.0, object.app);
        self.show_phase(id, object);
        for app in before.into_iter().chain([app]) {
            self.follow(namespace, app);
        }
    }

    /// Writes a pod's object, of which only the phase is new: no writer of slices looks at that
    /// (`endpointslice/util:podEndpointsChanged`).
    pub fn show_phase(&mut self, id: (&'static str, String), object: PodObject) {
        let json = object.json((id.0, &id.1));
        self.api.store().put(PODS, &key(id.0, &id.1), json);
        self.objects.pods.insert(id, object);
    }

    /// Writers of slices that keep up with a pod.
    pub fn follow(&mut self, namespace: &str, app: &str) {
        if self.setup.follow {
            let concerned = |service: &&crate::objects::Service| {
                service.namespace == namespace && service.selects.unwrap_or(service.name) == app
            };
            ALL_SERVICES
                .iter()
                .filter(concerned)
                .for_each(|service| self.write_slice(service));
        }
    }
}

pub fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}
