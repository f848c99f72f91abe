//! What must hold at every moment, and what must have come true when all is quiet. By the ground truth alone.

use crate::agent::{Denied, Kernel, MAX_VIEW_AGE, octets};
use crate::cluster::{Ip, Kubelet, Pod};
use crate::objects::{ALL_SERVICES, Container, NAMESPACES, PODS, PodObject, SERVICES, SLICES, Service};
use crate::story::alias;
use crate::world::{World, key};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// How long the agent may act on what it was not sent yet, once it was shown that it lacks something.
const KNOWN_BEHIND: Duration = Duration::from_millis(1_600);
/// From the delivery of an event to the map.
const WRITE: Duration = Duration::from_millis(20);
/// Netlink is asked once a second; meanwhile the programs ask the node's routes.
const NETLINK: Duration = Duration::from_millis(1_100);
/// How long an agent that is gone still denies.
const GONE: Duration = Duration::from_secs(16);

/// Denials that look wrong, and since when.
#[derive(Default)]
pub struct Suspicions(BTreeMap<Denied, Instant>);

/// What is wrong, and the lab's calls that show it.
#[derive(Debug)]
pub struct Wrong {
    pub why: String,
    pub check: String,
}

/// Since when the agent is away, or has not listed everything.
pub type Blind = Option<Instant>;

impl Suspicions {
    /// Judges every denial in force. An error says which one is wrong.
    pub fn check(&mut self, world: &World, kernel: &Kernel, blind: Blind) -> Result<(), Wrong> {
        let now = Instant::now();
        let excused = |kinds: &[(usize, String)]| is_excused(world, blind, kinds);
        let mut wrong = BTreeMap::new();
        for denied in kernel.in_force() {
            let Some(because) = is_wrong(world, &denied, &excused) else {
                continue;
            };
            let since = *self.0.get(&denied).unwrap_or(&now);
            let patience = if denied.vip.is_none() { NETLINK } else { WRITE };
            if now >= since + patience {
                let why = format!("{} for {} is denied, but {because}", denied.reason, denied.ip);
                let check = calls(world, &denied);
                return Err(Wrong { why, check });
            }
            wrong.insert(denied, since);
        }
        self.0 = wrong;
        Ok(())
    }
}

/// What the client of a denied flow must see.
fn calls(world: &World, denied: &Denied) -> String {
    let service = ALL_SERVICES
        .iter()
        .find(|service| Some(service.vip) == denied.vip);
    let called = service.map(|service| format!("{}/{}", service.namespace, service.name));
    let Some(holder) = world.cluster.holder(denied.ip).map(|pod| alias(&pod.uid)) else {
        return String::new();
    };
    let called = called.unwrap_or_else(|| holder.clone());
    format!("  - check:\n      - {{call: {called}, times: 3, sees: {holder}}}\n")
}

/// Why a denial is wrong, unless the agent could not know.
fn is_wrong(world: &World, denied: &Denied, excused: &impl Fn(&[(usize, String)]) -> bool) -> Option<String> {
    let holder = world.cluster.holder(denied.ip);
    let Some(vip) = denied.vip else {
        let holder = holder.filter(|pod| pod.node == 0 && !excused(&[]))?;
        return Some(format!("the sandbox of {} holds it", holder.uid));
    };
    let service = ALL_SERVICES.iter().find(|service| service.vip == vip)?;
    let mode = world.objects.modes.get(service.namespace);
    if mode.is_some() && !excused(&[(NAMESPACES, service.namespace.to_owned())]) {
        return Some(format!("namespace {} allows only {mode:?}", service.namespace));
    }
    let holder = holder?;
    let id = key(holder.namespace, &holder.name);
    // Force-deleted before the agent has listed anew: it was never shown that the pod runs again.
    let unseen = holder.revived && world.objects.pod_of(&holder.uid).is_none();
    if denied.dead == Some(octets(&holder.uid)) && !unseen && !excused(&[(PODS, id.clone())]) {
        return Some(format!("{}, which it calls dead, runs there", holder.uid));
    }
    let (_, object) = world.objects.pod_of(&holder.uid)?;
    let rightful = denied.reason != "retired-backend" && is_backend(world, service, holder, object);
    let own = |suffix: &str| {
        (
            SLICES,
            key(service.namespace, &format!("{}-{suffix}", service.name)),
        )
    };
    let concerned = [
        (PODS, id),
        (SERVICES, key(service.namespace, service.name)),
        own("auto"),
        own("custom"),
    ];
    (rightful && !excused(&concerned))
        .then(|| format!("{} holds it, and is a backend of {}", holder.uid, service.name))
}

/// Whether a pod that holds an IP is who the Service's clients shall reach there.
fn is_backend(world: &World, service: &Service, holder: &Pod, object: &PodObject) -> bool {
    if object.is_terminal() || holder.sandbox.is_none() {
        return false;
    }
    let same_namespace = holder.namespace == service.namespace;
    let selected = service.selects == Some(object.app) && same_namespace;
    let ip = holder.sandbox.unwrap_or(service.vip);
    let mut listed = world.objects.listed(service, ip);
    let listed = listed.any(|endpoint| match &endpoint.target {
        None => true,
        Some((name, uid)) => {
            let stands_in = *name == holder.name || object.replica;
            let successor = service.selects.is_none() && same_namespace && stands_in;
            successor || *uid == holder.uid || uid == "uid-of-another-cluster"
        }
    });
    selected || listed
}

/// Whether the agent could not know: an event that shows it was not sent yet, for less than a view's age, and nothing
/// else has shown the agent that it lacks any.
fn is_excused(world: &World, blind: Blind, kinds: &[(usize, String)]) -> bool {
    let now = Instant::now();
    let store = world.api.store();
    if let Some(since) = blind {
        return now < since + GONE;
    }
    kinds.iter().any(|(kind, object)| {
        let unsent = store.pending(*kind, |changed| changed == object);
        let young = unsent.is_some_and(|at| now < at + MAX_VIEW_AGE + Duration::from_secs(1));
        let unaware = store
            .behind_since(*kind)
            .is_none_or(|since| now < since + KNOWN_BEHIND);
        young && unaware
    })
}

/// What is provable now, by the ground truth and the API, and is not denied. To be asked when all has been quiet for long.
pub fn missing(world: &World, kernel: &Kernel, listed: &[(Service, Ip, String)]) -> Option<String> {
    let in_force = kernel.in_force();
    let is_denied = |service: &Service, ip: Ip| {
        in_force
            .iter()
            .any(|denied| denied.vip == Some(service.vip) && denied.ip == ip)
    };
    let missing = provable(world, listed).find(|(service, ip)| !is_denied(service, *ip));
    missing.map(|(service, ip)| format!("{}'s flows to {ip} are not denied", service.name))
}

/// What is denied for good of the endpoints whose slices list only pods that the API has, with the IP: (VIP, IP, reason).
pub fn lasting(world: &World, kernel: &Kernel) -> BTreeSet<(Ip, Ip, &'static str)> {
    let known = |uid: &str, ip: Ip| {
        world
            .objects
            .pod_of(uid)
            .is_some_and(|(_, object)| object.ip == Some(ip))
    };
    let is_plain = |denied: &&Denied| {
        let service = ALL_SERVICES
            .iter()
            .find(|service| Some(service.vip) == denied.vip);
        let mut listed = service
            .into_iter()
            .flat_map(|service| world.objects.listed(service, denied.ip));
        listed.all(|endpoint| {
            endpoint
                .target
                .as_ref()
                .is_some_and(|(_, uid)| known(uid, denied.ip))
        })
    };
    let in_force = kernel.in_force();
    let dead = in_force.iter().filter(|denied| denied.dead.is_some());
    dead.filter(is_plain)
        .filter_map(|denied| Some((denied.vip?, denied.ip, denied.reason)))
        .collect()
}

/// The endpoints of which the ground truth and the API prove that no rightful receiver is there.
pub fn provable<'a>(
    world: &'a World,
    listed: &'a [(Service, Ip, String)],
) -> impl Iterator<Item = (Service, Ip)> + 'a {
    let places = listed.iter().map(|(service, ip, _)| (*service, *ip));
    places.filter(move |(service, ip)| is_provable(world, service, *ip, listed))
}

fn is_provable(world: &World, service: &Service, ip: Ip, ever: &[(Service, Ip, String)]) -> bool {
    if !world.objects.modes.is_empty() {
        return false;
    }
    let mut endpoints = world.objects.listed(service, ip).peekable();
    let by_controller = endpoints.peek().is_some();
    let mut meant = ever.iter().filter(|(other, at, _)| other == service && *at == ip);
    by_controller
        && meant.all(|(_, _, uid)| is_proven_dead(world, uid, ip))
        && endpoints.all(|endpoint| {
            endpoint
                .target
                .as_ref()
                .is_some_and(|(_, uid)| is_proven_dead(world, uid, ip))
        })
        && world
            .objects
            .pods
            .values()
            .all(|pod| pod.is_terminal() || is_settled_elsewhere(pod, ip))
}

/// Terminal as only a kubelet of today writes it, with this IP, and gone from its node.
fn is_proven_dead(world: &World, uid: &str, ip: Ip) -> bool {
    let gone = world
        .cluster
        .pods
        .iter()
        .any(|pod| pod.uid == uid && pod.sandbox.is_none() && pod.over);
    let shown = world.objects.pod_of(uid).is_some_and(|(_, object)| {
        let by_kubelet =
            object.phase_by == "kubelet" && world.cluster.kubelets[object.node] == Kubelet::Current;
        object.is_terminal()
            && by_kubelet
            && object.ip == Some(ip)
            && matches!(
                (object.sandbox, object.container),
                (Some((false, _)), Container::Ended(..))
            )
    });
    gone && shown
}

fn is_settled_elsewhere(pod: &PodObject, ip: Ip) -> bool {
    let (Some((true, up)), Container::Running(start)) = (pod.sandbox, pod.container) else {
        return false;
    };
    start >= up && pod.ip.is_some_and(|shown| shown != ip)
}
