//! What the API holds, and which facts the watches make of a step.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

pub struct Cluster {
    pub services: BTreeMap<ObjectName, Service>,
    pub slices: BTreeMap<ObjectName, Slice>,
    pub pods: BTreeMap<Uid, Pod>,
    pub nodes: BTreeMap<Text, Node>,
    pub local: Vec<Addr>,
    namespaces: BTreeMap<Text, Namespace>,
    /// Who was dead once: no UID comes back to life.
    dead: BTreeSet<Uid>,
}

impl Cluster {
    pub fn new() -> Self {
        let steps = [(0, "web", 1), (1, "api", 2), (2, "web", 3), (3, "web", 1)];
        let services = steps.map(|(number, app, vip)| {
            let service = service(number, Some(app), vec![Addr::v4([10, 96, 0, vip])], 0);
            (service.name.clone(), service)
        });
        Self {
            services: services.into(),
            slices: BTreeMap::new(),
            pods: BTreeMap::new(),
            nodes: [0, 1]
                .map(|number| (node_name(number).into(), plain_node(number, [1, 2][number])))
                .into(),
            local: Vec::new(),
            namespaces: ["shop", "other"]
                .map(|name| (name.into(), namespace(name, Mode::Enforce)))
                .into(),
            dead: BTreeSet::new(),
        }
    }

    /// Makes the step happen; returns the facts that the agent receives.
    pub fn take(&mut self, step: &Step) -> Vec<Fact> {
        match step {
            Step::Pod(pod, bound) => self.put_pod(pod, *bound),
            Step::Change(number, change) => self.change_pod(*number, change),
            Step::Delete(number, deleting) => self.delete_pod(*number, *deleting),
            Step::Slice(step) => {
                let slice = self.slice(step);
                vec![Fact::Slice(put(
                    &mut self.slices,
                    slice.name.clone(),
                    slice,
                ))]
            }
            Step::DeleteSlice(number) => deleted(&mut self.slices, *number, Fact::Slice),
            Step::Service(service) => {
                vec![Fact::Service(put(
                    &mut self.services,
                    service.name.clone(),
                    service.clone(),
                ))]
            }
            Step::DeleteService(number) => deleted(&mut self.services, *number, Fact::Service),
            Step::Node(node) => vec![Fact::Node(put(
                &mut self.nodes,
                node.name.clone(),
                node.clone(),
            ))],
            Step::DeleteNode(number) => deleted(&mut self.nodes, *number, Fact::Node),
            Step::Local(addresses) => {
                self.local.clone_from(addresses);
                vec![Fact::LocalAddresses(addresses.clone())]
            }
            Step::Namespace(name, bound) => {
                let shown = namespace(name, *bound);
                vec![Fact::Namespace(put(
                    &mut self.namespaces,
                    shown.name.clone(),
                    shown,
                ))]
            }
            Step::Held(ips) => vec![routes_to(ips)],
            Step::Unknown => vec![Fact::Presence(Presence::Unknown)],
            Step::SocketLb(is_there) => vec![Fact::SocketLb(*is_there)],
            Step::Relist(kind, gone) => vec![self.relist(*kind, *gone)],
            Step::Part(kind, number, gone) => {
                self.part(*kind, *number, *gone).into_iter().collect()
            }
            Step::Wait(_)
            | Step::Hit(_)
            | Step::Speaks(_)
            | Step::NodeSeen(_)
            | Step::Gap(..)
            | Step::Restart(_) => vec![],
        }
    }

    fn put_pod(&mut self, shown: &Pod, bound: bool) -> Vec<Fact> {
        let mut after = shown.clone();
        if !bound
            && self
                .pods
                .get(&shown.uid)
                .is_none_or(|before| before.node.is_none())
        {
            (after.node, after.ips) = (None, ips_of(0, &[]));
        }
        // The API holds one pod of a name at a time.
        let is_namesake = |_: &Uid, pod: &mut Pod| pod.name == shown.name && pod.uid != shown.uid;
        let namesakes = self.pods.extract_if(.., is_namesake);
        let ends = namesakes.map(|(_, last)| {
            Fact::Pod(Change::Deleted(Pod {
                deleting: true,
                ..last
            }))
        });
        let ends: Vec<Fact> = ends.collect();
        ends.into_iter().chain(self.show(after)).collect()
    }

    fn change_pod(&mut self, number: usize, change: &PodChange) -> Vec<Fact> {
        let Some(before) = nth(&self.pods, number).cloned() else {
            return vec![];
        };
        let mut after = before.clone();
        let on = before
            .node
            .as_ref()
            .map(|name| usize::from(name != node_name(0)));
        match (change, on) {
            (PodChange::Ips(choice), Some(on)) => after.ips = ips_of(on, choice),
            (PodChange::StrayIp, Some(on)) => after.ips = ips_of(1 - on, &[0]),
            (PodChange::Ips(_) | PodChange::StrayIp, None) => {}
            (PodChange::State(uid_state), _) => after.uid_state = *uid_state,
            (PodChange::Deleting(deleting), _) => after.deleting = *deleting,
            (PodChange::Sandbox(shown), _) => set_sandbox(&mut after, *shown),
            (PodChange::Variant(variant), _) => set_variant(&mut after, *variant),
            (PodChange::App(app), _) => after.labels = [("app", *app)].into_iter().collect(),
            (PodChange::Bound(bound), _) => after.bound = *bound,
        }
        self.show(after)
    }

    fn show(&mut self, mut after: Pod) -> Vec<Fact> {
        if after.uid_state == UidState::Dead {
            self.dead.insert(after.uid);
        } else if self.dead.contains(&after.uid) {
            after.uid_state = UidState::Dead;
        }
        vec![Fact::Pod(put(&mut self.pods, after.uid, after))]
    }

    fn delete_pod(&mut self, number: usize, deleting: bool) -> Vec<Fact> {
        let Some(last) = nth(&self.pods, number).cloned() else {
            return vec![];
        };
        self.pods.remove(&last.uid);
        vec![Fact::Pod(Change::Deleted(Pod { deleting, ..last }))]
    }

    fn slice(&self, step: &SliceStep) -> Slice {
        let service = service_name(step.service);
        let endpoints = step.endpoints.iter().flat_map(|endpoint| match endpoint {
            EndpointStep::Of(number) => {
                let pod = nth(&self.pods, *number);
                pod.map_or(vec![], |pod| {
                    pod.ips.iter().map(|ip| (*ip, Some(pod.uid))).collect()
                })
            }
            EndpointStep::Stray(ip, target) => vec![(*ip, *target)],
        });
        let endpoints: Vec<SliceEndpoint> =
            endpoints.map(|(ip, target)| endpoint(ip, target)).collect();
        let pods = endpoints
            .iter()
            .filter_map(|endpoint| self.pods.get(&endpoint.target?));
        let mut namespaces: BTreeSet<Text> = pods.map(|pod| pod.name.namespace.clone()).collect();
        namespaces.extend(step.namespace.map(Text::from));
        Slice {
            name: ObjectName::new(service.namespace.clone(), format!("slice-{}", step.number)),
            service: Some(service),
            endpoints,
            namespaces: namespaces.into_iter().collect(),
            ports: step.ports.clone(),
            partial: step.partial,
            foreign: step.foreign,
            triggered: None,
        }
    }

    /// A list of what the n-th pod stands for, or of the n-th Service's slices.
    fn part(&mut self, kind: Watched, number: usize, gone: u8) -> Option<Fact> {
        if kind == Watched::EndpointSlices {
            let selection = Selection::slices_of(&service_name(number % 4));
            let objects = some(&mut self.slices, |slice| selection.has_slice(slice), gone);
            return Some(Fact::Slice(Change::Part(part(selection, objects))));
        }
        let pod = nth(&self.pods, number)?;
        let selection = match (number % 3, &pod.node) {
            (0, Some(node)) => Selection::OnNode(node.clone()),
            (1, node) => Selection::Labelled {
                namespace: pod.name.namespace.clone(),
                selector: selector(pod)?,
                node: node.clone().filter(|_| number.is_multiple_of(2)),
            },
            _ => Selection::Labelled {
                namespace: pod.name.namespace.clone(),
                selector: Selector::default(),
                node: None,
            },
        };
        let objects = some(&mut self.pods, |pod| selection.has_pod(pod), gone);
        Some(Fact::Pod(Change::Part(part(selection, objects))))
    }

    fn relist(&mut self, kind: Watched, gone: u8) -> Fact {
        match kind {
            Watched::Pods => Fact::Pod(list(&mut self.pods, gone)),
            Watched::EndpointSlices => Fact::Slice(list(&mut self.slices, gone)),
            Watched::Services => Fact::Service(list(&mut self.services, gone)),
            Watched::Nodes => Fact::Node(list(&mut self.nodes, gone)),
            Watched::Namespaces => Fact::Namespace(list(&mut self.namespaces, gone)),
            Watched::ModePolicy => unreachable!("no denial rests on it"),
        }
    }
}

pub fn set_sandbox(pod: &mut Pod, (sandbox, since, starts): Shown) {
    (pod.sandbox, pod.sandbox_since, pod.starts) = (sandbox, NonZeroU32::new(since), starts);
}

/// Sets what is rare of a pod, and takes back what was before.
pub fn set_variant(pod: &mut Pod, variant: Variant) {
    pod.host_network = matches!(variant, Variant::HostNetwork);
    pod.mirror = matches!(variant, Variant::Mirror);
    pod.static_ip = matches!(variant, Variant::StaticIp);
    pod.partial = matches!(variant, Variant::Partial);
    pod.network_ips = match variant {
        Variant::Network(ip) => [ip].into(),
        _ => [].into(),
    };
    pod.host_ports = match variant {
        Variant::HostPort(port) => [HostPort {
            addr: None,
            port,
            protocol: Protocol::Tcp,
        }]
        .into(),
        _ => [].into(),
    };
}

fn put<K: Ord, T: Clone>(objects: &mut BTreeMap<K, T>, key: K, object: T) -> Change<T> {
    objects.insert(key, object.clone());
    Change::Applied(object)
}

fn deleted<K: Ord + Clone, T>(
    objects: &mut BTreeMap<K, T>,
    number: usize,
    fact: fn(Change<T>) -> Fact,
) -> Vec<Fact> {
    let key = objects.keys().nth(number % objects.len().max(1)).cloned();
    let last = key.and_then(|key| objects.remove(&key));
    last.map(|last| fact(Change::Deleted(last)))
        .into_iter()
        .collect()
}

fn nth<K, T>(objects: &BTreeMap<K, T>, number: usize) -> Option<&T> {
    objects.values().nth(number % objects.len().max(1))
}

pub fn ips_of(node: usize, choice: &[usize]) -> Vec<Addr> {
    choice
        .iter()
        .map(|position| pool(node)[*position])
        .collect()
}

/// The selector of Services that select the pod.
fn selector(pod: &Pod) -> Option<Selector> {
    let selectors = ["web", "api"].map(|app| [("app", app)].into_iter().collect());
    selectors
        .into_iter()
        .find(|selector: &Selector| selector.selects(&pod.labels))
}

pub fn service_name(number: usize) -> ObjectName {
    let namespace = if number == 2 { "other" } else { "shop" };
    ObjectName::new(namespace, format!("service-{number}"))
}
