//! What must hold at every moment, and what must have come true when all is quiet. By the ground truth alone.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

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

/// Since when the agent is away, or has not listed everything.
pub type Blind = Option<Instant>;

impl Suspicions {
    /// Judges every denial in force. An error says which one is wrong.
    pub fn check(&mut self, world: &World, kernel: &Kernel, blind: Blind) -> Result<(), String> {
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
                return Err(format!("{} for {} is denied, but {because}", denied.reason, denied.ip));
            }
            wrong.insert(denied, since);
        }
        self.0 = wrong;
        Ok(())
    }
}

/// The Services that a packet to an address may be meant for.
fn called(world: &World, vip: Ip) -> impl Iterator<Item = &Service> {
    let services = world.services.iter().enumerate();
    let called = services.filter(move |(number, service)| {
        service.vip == vip.of(false) || world.objects.addresses.get(number) == Some(&vip)
    });
    called.map(|(_, service)| service)
}

/// Why a denial is wrong, unless the agent could not know.
fn is_wrong(world: &World, denied: &Denied, excused: &impl Fn(&[(usize, String)]) -> bool) -> Option<String> {
    let mut addresses = world.objects.addresses.iter().filter(|(_, ip)| **ip == denied.ip);
    let owner = addresses.find_map(|(owner, _)| match world.services.get(*owner) {
        Some(service) => denied.vip.is_none().then(|| (SERVICES, key(service.namespace, service.name))),
        None => world.cluster.ranges[owner - 4].map(|_| (NODES, NODE_NAMES[owner - 4].to_owned())),
    });
    if let Some(object) = owner.filter(|object| !excused(std::slice::from_ref(object))) {
        return Some(format!("{} has it", object.1));
    }
    let holder = world.cluster.holder(denied.ip);
    let Some(vip) = denied.vip else {
        let holder = holder.filter(|_| !excused(&[]))?;
        return Some(format!("the sandbox of {} holds it", holder.uid));
    };
    called(world, vip).find_map(|service| is_wrong_for(world, service, denied, excused))
}

fn is_wrong_for(
    world: &World,
    service: &Service,
    denied: &Denied,
    excused: &impl Fn(&[(usize, String)]) -> bool,
) -> Option<String> {
    let mode = world.objects.modes.get(service.namespace);
    if mode.is_some() && !excused(&[(NAMESPACES, service.namespace.to_owned())]) {
        return Some(format!("namespace {} allows only {mode:?}", service.namespace));
    }
    let holder = world.cluster.holder(denied.ip)?;
    let id = key(holder.namespace, &holder.name);
    // Force-deleted before the agent has listed anew: it was never shown that the pod runs again.
    let unseen = holder.revived && world.objects.pod_of(&holder.uid).is_none();
    if denied.dead == Some(octets(&holder.uid)) && !unseen && !excused(&[(PODS, id.clone())]) {
        return Some(format!("{}, which it calls dead, runs there", holder.uid));
    }
    let (_, object) = world.objects.pod_of(&holder.uid)?;
    let rightful = match denied.reason {
        "retired-backend" => false,
        "reused" if denied.dead.is_none() && object.is_terminal() => {
            let mut listed = world.objects.listed(service, denied.ip);
            listed.any(|endpoint| endpoint.target.as_ref().is_some_and(|(_, uid)| *uid == holder.uid))
        }
        _ => !object.is_terminal() && is_own(world, service, holder, object, denied.ip),
    };
    let slices = service.slices().map(|slice| (SLICES, key(service.namespace, &slice)));
    let concerned: Vec<(usize, String)> =
        slices.chain([(PODS, id), (SERVICES, key(service.namespace, service.name))]).collect();
    (rightful && !excused(&concerned))
        .then(|| format!("{} holds it, and is who {} may reach there", holder.uid, service.name))
}

/// Whether a pod is who the Service's clients shall reach at an IP.
fn is_own(world: &World, service: &Service, holder: &Pod, object: &PodObject, ip: Ip) -> bool {
    let same_namespace = holder.namespace == service.namespace;
    let mut slices = world.objects.slices_of(service);
    let has_foreign = slices.any(|(name, slice)| {
        !name.contains("-auto") && slice.endpoints.iter().any(|endpoint| endpoint.target.is_some())
    });
    let replaces = |name: &str, uid: &str| {
        let mut pods = world.cluster.pods.iter();
        let is_of_its_owner = |pod: &Pod| pod.uid == uid && pod.app == holder.app;
        let is_any = service.selects.is_none() || has_foreign;
        name == holder.name || is_any && object.stands_in() && pods.any(is_of_its_owner)
    };
    let selected = service.selects == Some(object.app) && same_namespace;
    let mut listed = world.objects.listed(service, ip);
    let listed_at = listed.any(|endpoint| match &endpoint.target {
        None => true,
        Some((_, uid)) if uid == "uid-of-another-cluster" || *uid == holder.uid => true,
        Some((name, uid)) => same_namespace && replaces(name, uid),
    });
    selected || listed_at
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
        let unaware = store.behind_since(*kind).is_none_or(|since| now < since + KNOWN_BEHIND);
        young && unaware
    })
}

/// What is provable now, by the ground truth and the API, and is not denied. To be asked when all has been quiet for long.
pub fn missing(world: &World, kernel: &Kernel, listed: &[(Service, Ip, String)]) -> Option<String> {
    let in_force = kernel.in_force();
    let is_denied = |service: &Service, ip: Ip| {
        let mut at = in_force.iter().filter(|denied| denied.ip == ip);
        at.any(|denied| denied.vip == Some(service.vip.of(ip.six)))
    };
    let missing = provable(world, listed).find(|(service, ip)| !is_denied(service, *ip));
    missing.map(|(service, ip)| format!("{}'s flows to {ip} are not denied", service.name))
}

/// What is denied for good of the endpoints whose slices list only pods that the API shows dead, with the IP: (VIP, IP, reason).
pub fn lasting(world: &World, kernel: &Kernel) -> BTreeSet<(Ip, Ip, &'static str)> {
    // An agent that starts then cannot know of an end that the API shows no more.
    let is_unknown = |pod: &PodObject, ip| shows(pod, ip) && pod.is_terminal() && !is_shown_over(pod);
    let is_plain = |denied: &&Denied| {
        let services: Vec<&Service> = denied.vip.into_iter().flat_map(|vip| called(world, vip)).collect();
        let is_of = |namespace: &str| services.iter().any(|service| service.namespace == namespace);
        let mut pods = world.objects.pods.iter();
        if pods.any(|((namespace, _), pod)| is_of(namespace) && is_unknown(pod, denied.ip)) {
            return false;
        }
        let mut listed = services.iter().flat_map(|service| world.objects.listed(service, denied.ip));
        listed.all(|endpoint| {
            let target = endpoint.target.as_ref();
            target.is_some_and(|(_, uid)| {
                let shown = world.objects.pod_of(uid).map(|(_, object)| object);
                shown.is_some_and(|pod| is_shown_over(pod) && shows(pod, denied.ip) && has_node(world, pod))
            })
        })
    };
    let in_force = kernel.in_force();
    let dead = in_force.iter().filter(|denied| denied.dead.is_some());
    dead.filter(is_plain).filter_map(|denied| Some((denied.vip?, denied.ip, denied.reason))).collect()
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
    if !world.objects.modes.is_empty() || world.spared.contains(&ip) {
        return false;
    }
    let mut endpoints = world.objects.listed(service, ip).peekable();
    let by_controller = endpoints.peek().is_some();
    let mut meant = ever.iter().filter(|(other, at, _)| other == service && *at == ip);
    let listed: BTreeSet<&str> = (world.objects.slices_of(service))
        .flat_map(|(_, slice)| &slice.endpoints)
        .filter_map(|endpoint| Some(&*endpoint.target.as_ref()?.1))
        .collect();
    let is_stranger = |namespace: &str, pod: &PodObject| {
        let is_elsewhere = namespace != service.namespace && !listed.contains(&*pod.uid);
        is_elsewhere && shows(pod, ip) && is_settled(world, pod)
    };
    let mut pods = world.objects.pods.iter();
    let strangers =
        pods.clone().filter(|((namespace, _), pod)| !pod.is_terminal() && is_stranger(namespace, pod));
    by_controller
        && strangers.count() < 2
        && meant.all(|(_, _, uid)| is_proven_dead(world, service, uid, ip))
        && endpoints.all(|endpoint| {
            let target = endpoint.target.as_ref();
            target.is_some_and(|(_, uid)| is_proven_dead(world, service, uid, ip))
        })
        && pods.all(|((namespace, _), pod)| {
            let elsewhere = is_settled(world, pod) && !shows(pod, ip) && pod.ip.is_some();
            pod.is_terminal() || elsewhere || is_stranger(namespace, pod)
        })
}

/// Gone from its node, and terminal as only a kubelet of today writes it, with this IP; or so when an agent ended that denied it.
fn is_proven_dead(world: &World, service: &Service, uid: &str, ip: Ip) -> bool {
    let mut pods = world.cluster.pods.iter();
    let gone = pods.any(|pod| pod.uid == uid && pod.sandbox.is_none() && pod.over);
    let shown = world.objects.pod_of(uid).is_some_and(|(_, object)| {
        let kept = world.kept.contains(&(service.vip.of(ip.six), ip, octets(uid)));
        let current = world.cluster.kubelets[object.node] == Kubelet::Current;
        let shown = object.phase_by == "kubelet" && is_shown_over(object) && current;
        object.is_terminal() && shows(object, ip) && (shown || kept) && has_node(world, object)
    });
    gone && shown
}

fn is_shown_over(pod: &PodObject) -> bool {
    matches!((pod.sandbox, pod.container), (Some((false, _)), Container::Ended(..)))
}

fn shows(pod: &PodObject, ip: Ip) -> bool {
    pod.ip == Some(ip.of(false)) && pod.families.contains(&ip.six)
}

fn has_node(world: &World, pod: &PodObject) -> bool {
    world.cluster.ranges[pod.node].is_some()
}

/// Whether all its IPs are known: by the kubelet's clock, or by the order of events if an agent saw them all.
fn is_settled(world: &World, pod: &PodObject) -> bool {
    let (Some((true, up)), Container::Running(start)) = (pod.sandbox, pod.container) else {
        return false;
    };
    (start >= up || world.faultless) && pod.attached.len() < 2
}
