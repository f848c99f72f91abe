//! A cluster with an agent on each node.

use super::agent::Agent;
use super::clock::now;
use super::fill::{JOB_PODS, fill, job};
use super::lapse::Lapse;
use super::network::Network;
use super::objects::{self, Objects, Pod, State};
use super::size::{self, Size};
use epguard_lab::api::{Kind, ObjectRef, Store};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

/// Pods that are dead from the beginning, one of a Service, so that all agents deny and need their leases.
pub(crate) const DEAD: u32 = 5;

pub(crate) struct Cluster {
    pub(crate) size: Size,
    pub(crate) store: Store,
    pub(crate) objects: Objects,
    pub(crate) network: Arc<Network>,
    lapses: Vec<Arc<Mutex<Lapse>>>,
    agents: JoinSet<()>,
}

impl Cluster {
    pub(crate) fn new(size: Size) -> Self {
        let (store, objects) = (Store::new(), Objects::new(size));
        fill(&store, &objects, size);
        for service in 1..=DEAD {
            let number = size.pods_of(service)[0];
            let dead = objects.pod(Pod { number, service }, State::Ended);
            store.apply(dead).unwrap();
        }
        Self {
            size,
            network: Network::new(store.clone(), size.nodes),
            store,
            objects,
            lapses: Vec::new(),
            agents: JoinSet::new(),
        }
    }

    /// Starts all agents at this moment.
    pub(crate) fn start(&mut self) {
        for node in 0..self.size.nodes {
            let client = self.network.client(&format!("epguard-{node}/0"));
            let lapse = Arc::new(Mutex::new(Lapse::new(now())));
            self.lapses.push(Arc::clone(&lapse));
            let agent = Agent::start(client, &size::node_name(node), lapse);
            self.agents.spawn(agent.run());
        }
    }

    /// Begins to measure the lapses of leases.
    pub(crate) fn begin(&self) {
        for lapse in &self.lapses {
            lapse.lock().unwrap().begin(now());
        }
    }

    /// The longest time that an agent had no lease, and the oldest view of an agent.
    pub(crate) fn longest(&self) -> (Duration, Duration) {
        let lapses = self
            .lapses
            .iter()
            .map(|lapse| lapse.lock().unwrap().longest(now()));
        lapses.fold(Default::default(), |(longest, oldest), (own, age)| {
            (longest.max(own), oldest.max(age))
        })
    }

    /// The fewest and the most denials that an agent carries out, and the most that wait for a list.
    pub(crate) fn denials(&self) -> [usize; 3] {
        let all = || self.lapses.iter().map(|lapse| *lapse.lock().unwrap());
        [
            all().map(|lapse| lapse.denied).min().unwrap_or_default(),
            all().map(|lapse| lapse.denied).max().unwrap_or_default(),
            all().map(|lapse| lapse.pending).max().unwrap_or_default(),
        ]
    }

    /// Panics if an agent has ended.
    pub(crate) fn check(&mut self) {
        assert!(self.agents.try_join_next().is_none(), "an agent ended");
    }

    /// The pods of the tenant's Service of this round. All its Services are in one namespace.
    pub(crate) fn jobs(&self, round: u32) -> Vec<Pod> {
        let pods = (0..JOB_PODS).map(|pod| job(self.size, 0, pod));
        let own = pods.map(|pod| Pod {
            number: pod.number + 100 + round * JOB_PODS,
            service: pod.service + (1 + round) * size::NAMESPACES,
        });
        own.collect()
    }

    pub(crate) fn pod(&self, pod: Pod, state: State) {
        self.store.apply(self.objects.pod(pod, state)).unwrap();
    }

    /// Writes a Service with these pods.
    pub(crate) fn list(&self, pods: &[Pod]) {
        let listed: Vec<_> = pods.iter().map(|pod| (pod.number, State::Running)).collect();
        let service = pods[0].service;
        for object in [
            self.objects.service(service),
            self.objects.slice(service, 0, &listed),
        ] {
            self.store.apply(object).unwrap();
        }
    }

    /// Removes the Service of these pods, and the pods.
    pub(crate) fn clear(&self, pods: &[Pod]) {
        let service = pods[0].service;
        let (namespace, app) = (size::namespace(service), size::app(service));
        let of = |kind, name: &str| ObjectRef::new(kind, &namespace, name);
        let objects = [
            of(Kind::EndpointSlice, &format!("{app}-0")),
            of(Kind::Service, &app),
        ];
        let pods = pods
            .iter()
            .map(|pod| ObjectRef::pod(&namespace, &objects::name(*pod)));
        objects
            .into_iter()
            .chain(pods)
            .for_each(|object| drop(self.store.remove(&object).unwrap()));
    }
}
