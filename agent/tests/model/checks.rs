//! What must hold at every moment, and what must have come true when all is quiet. By the ground
//! truth alone.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// How long the agent may act on what it was not sent yet, once it was shown that it lacks
/// something.
const KNOWN_BEHIND: Duration = Duration::from_millis(1_600);
/// From the delivery of an event to the map.
const WRITE: Duration = Duration::from_millis(20);
/// Netlink is asked once a second; meanwhile the programs ask the node's routes.
const NETLINK: Duration = Duration::from_millis(1_100);
/// How long an agent that is gone still denies.
const GONE: Duration = Duration::from_secs(16);

/// Denials that look wrong.
#[derive(Default)]
pub struct Suspicions(BTreeMap<Denied, Suspicion>);

#[derive(Clone, Copy)]
struct Suspicion {
    since: Instant,
    /// How many turns the agent may take until the denial ends: it receives what contradicts it,
    /// and applies that before anything else but what it has received before.
    turns: Option<u64>,
}

/// Since when the agent is away, or has not listed everything.
pub type Blind = Option<Instant>;

impl Suspicions {
    /// Judges every denial in force. An error says which one is wrong.
    pub fn check(
        &mut self,
        world: &World,
        kernel: &Kernel,
        blind: Blind,
        agent: Option<&Agent>,
    ) -> Result<(), String> {
        let excused = |kinds: &[(usize, String)]| is_excused(world, blind, kinds);
        let mut wrong = BTreeMap::new();
        for denied in kernel.in_force() {
            let Some(because) = is_wrong(world, &denied, &excused) else {
                continue;
            };
            let new = Suspicion {
                since: Instant::now(),
                turns: None,
            };
            let mut suspicion = *self.0.get(&denied).unwrap_or(&new);
            if suspicion.is_confirmed(denied.vip.is_none(), world.setup.costs, agent) {
                return Err(format!(
                    "{} for {} is denied, but {because}",
                    denied.reason, denied.ip
                ));
            }
            wrong.insert(denied, suspicion);
        }
        self.0 = wrong;
        Ok(())
    }
}

impl Suspicion {
    fn is_confirmed(&mut self, by_netlink: bool, costs: Costs, agent: Option<&Agent>) -> bool {
        let passed = self.since.elapsed();
        if by_netlink {
            return passed >= NETLINK + costs.longest_turn();
        }
        if passed < WRITE {
            return false;
        }
        let Some(agent) = agent else {
            return true;
        };
        if agent.is_half_applied() {
            self.turns = None;
        } else {
            let most = agent.turns() + agent.unread() as u64 + 2;
            let most = *self.turns.get_or_insert(most);
            if agent.is_idle() || agent.turns() >= most {
                return true;
            }
        }
        passed >= WRITE + costs.unread()
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
fn is_wrong(
    world: &World,
    denied: &Denied,
    excused: &impl Fn(&[(usize, String)]) -> bool,
) -> Option<String> {
    let mut addresses = world
        .objects
        .addresses
        .iter()
        .filter(|(_, ip)| **ip == denied.ip);
    let owner = addresses.find_map(|(owner, _)| match world.services.get(*owner) {
        Some(service) => denied
            .vip
            .is_none()
            .then(|| (SERVICES, key(service.namespace, service.name))),
        None => world.cluster.ranges[owner - 4].map(|_| (NODES, NODE_NAMES[owner - 4].to_owned())),
    });
    if let Some(object) = owner.filter(|object| !excused(std::slice::from_ref(object))) {
        return Some(format!("{} has it", object.1));
    }
    let holder = world.cluster.holder(denied.ip);
    let Some(vip) = denied.vip else {
        if excused(&[]) {
            return None;
        }
        return Some(format!("the sandbox of {} holds it", holder?.uid));
    };
    if let Some(holder) = holder.filter(|holder| vip == OWN_ADDRESS && holder.has_host_port_on(0)) {
        let pod = (PODS, key(holder.namespace, &holder.name));
        // A pod that is force-deleted before a stream that stalls has told of it is in no list.
        let was_shown = world.faultless || world.objects.pod_of(&holder.uid).is_some();
        if !was_shown || excused(&[pod]) {
            return None;
        }
        return Some(format!("{vip} is the host port of {}", holder.uid));
    }
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
        return Some(format!(
            "namespace {} allows only {mode:?}",
            service.namespace
        ));
    }
    let holder = world.cluster.holder(denied.ip)?;
    let id = key(holder.namespace, &holder.name);
    // Force-deleted before the agent has listed anew: it was never shown that the pod runs again.
    let unseen = holder.revived && world.objects.pod_of(&holder.uid).is_none();
    if denied.dead == Some(octets(&holder.uid)) && !unseen && !excused(&[(PODS, id.clone())]) {
        return Some(format!("{}, which it calls dead, runs there", holder.uid));
    }
    let (_, object) = world.objects.pod_of(&holder.uid)?;
    let rightful = if denied.reason == "reused" && denied.dead.is_none() && object.is_terminal() {
        let mut listed = world.objects.listed(service, denied.ip);
        listed.any(|endpoint| {
            endpoint
                .target
                .as_ref()
                .is_some_and(|target| target.uid == holder.uid)
        })
    } else {
        world.means(service, holder, denied.ip)
    };
    let copied = if let Writer::Copy(of) = service.writer {
        Some(&world.services[of])
    } else {
        None
    };
    let of_slices = copied.into_iter().chain([service]).flat_map(|service| {
        service
            .slices()
            .map(|slice| (SLICES, key(service.namespace, &slice)))
    });
    let concerned: Vec<(usize, String)> = of_slices
        .chain([(PODS, id), (SERVICES, key(service.namespace, service.name))])
        .collect();
    (rightful && !excused(&concerned)).then(|| {
        format!(
            "{} holds it, and is who {} may reach there",
            holder.uid, service.name
        )
    })
}

/// Whether the agent could not know: an event that shows it was not sent yet, for less than a
/// view's age, and nothing else has shown the agent that it lacks any.
fn is_excused(world: &World, blind: Blind, kinds: &[(usize, String)]) -> bool {
    let now = Instant::now();
    let waits = world.setup.costs.unread();
    let store = world.api.store();
    if let Some(since) = blind {
        return now < since + GONE + waits;
    }
    kinds.iter().any(|(kind, object)| {
        let unsent = store.pending(*kind, |changed| changed == object);
        let young =
            unsent.is_some_and(|at| now < at + MAX_VIEW_AGE + Duration::from_secs(1) + waits);
        let unaware = store
            .behind_since(*kind)
            .is_none_or(|since| now < since + KNOWN_BEHIND + waits);
        young && unaware
    })
}

/// What is provable now, by the ground truth and the API, and is not denied. To be asked when all
/// has been quiet for long.
pub fn missing(
    world: &World,
    kernel: &Kernel,
    listed: &[(Service, Ip, String)],
) -> Option<(Service, Ip)> {
    let in_force = kernel.in_force();
    provable(world, listed)
        .find(|(service, ip)| !in_force.iter().any(|denied| denied.is_of(service, *ip)))
}

/// What is denied for good of the endpoints whose slices list only pods that the API shows dead,
/// with the IP: (VIP, IP, reason).
pub fn lasting(world: &World, kernel: &Kernel) -> BTreeSet<(Ip, Ip, &'static str)> {
    // An agent that starts then cannot know of an end that the API shows no more, nor which Node it
    // was that a dead pod ran on, so that a pod which starts on another one may have been given its
    // IP.
    let is_unknown = |pod: &PodObject, ip| {
        if pod.is_terminal() {
            pod.shows(ip) && !is_shown_over(pod)
        } else {
            !shows_all(world, pod, ip)
        }
    };
    let is_plain = |denied: &&Denied| {
        let services: Vec<&Service> = denied
            .vip
            .into_iter()
            .flat_map(|vip| called(world, vip))
            .collect();
        if services.is_empty() {
            return false;
        }
        let is_of = |namespace: &str| {
            services
                .iter()
                .any(|service| service.namespace == namespace)
        };
        let mut pods = world.objects.pods.iter();
        if pods.any(|((namespace, _), pod)| is_of(namespace) && is_unknown(pod, denied.ip)) {
            return false;
        }
        let mut listed = services
            .iter()
            .flat_map(|service| world.objects.listed(service, denied.ip));
        listed.all(|endpoint| {
            let target = endpoint.target.as_ref();
            target.is_some_and(|target| {
                let shown = world.objects.pod_of(&target.uid).map(|(_, object)| object);
                shown.is_some_and(|pod| {
                    is_shown_over(pod) && pod.shows(denied.ip) && has_node(world, pod)
                })
            })
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
    places.filter(move |(service, ip)| {
        !world.convicted.contains(service.name) && is_provable(world, service, *ip, listed)
    })
}

fn is_provable(world: &World, service: &Service, ip: Ip, ever: &[(Service, Ip, String)]) -> bool {
    if !world.objects.modes.is_empty() || world.spared.contains(&ip) {
        return false;
    }
    let mut endpoints = world.objects.listed(service, ip).peekable();
    let is_listed = endpoints.peek().is_some();
    let mut meant = ever
        .iter()
        .filter(|(other, at, _)| other == service && *at == ip);
    let all_are_dead = meant.all(|(_, _, uid)| is_proven_dead(world, service, uid, ip))
        && endpoints.all(|endpoint| {
            let target = endpoint.target.as_ref();
            target.is_some_and(|target| is_proven_dead(world, service, &target.uid, ip))
        });
    if !is_listed || !all_are_dead {
        return false;
    }
    let own = Own::of(world, service, ever);
    let live = || {
        world
            .objects
            .pods
            .iter()
            .filter(|(_, pod)| !pod.is_terminal())
    };
    let mut strangers = live().filter(|(id, pod)| !own.has(id, pod) && pod.shows(ip));
    let stranger = strangers.next();
    if strangers.next().is_some() {
        return false;
    }
    // A denial is bound by the pod that it would hit, too.
    if world.crowd_is_bound && stranger.is_some_and(|((namespace, _), _)| *namespace == CROWD) {
        return false;
    }
    let is_reused = own.is_proven && stranger.is_some_and(|(_, pod)| is_settled(world, pod));
    live().filter(|(id, pod)| own.has(id, pod)).all(|(_, pod)| {
        !pod.shows(ip)
            && (shows_all(world, pod, ip) || is_reused || is_given_elsewhere(world, pod, ip))
    })
}

/// Which pods may be meant, as far as the API shows it.
struct Own {
    service: Service,
    /// The selector tells.
    is_proven: bool,
    /// Otherwise: all of these.
    namespaces: BTreeSet<&'static str>,
}

impl Own {
    fn of(world: &World, service: &Service, ever: &[(Service, Ip, String)]) -> Self {
        let uids = ever
            .iter()
            .filter(|(other, ..)| other == service)
            .map(|(.., uid)| uid);
        let named: Vec<&Pod> = uids
            .clone()
            .filter_map(|uid| world.cluster.pods.iter().find(|pod| pod.uid == *uid))
            .collect();
        // Written by hand as a pod of the Service's namespace.
        let of_another_cluster = uids
            .filter(|uid| *uid == OF_ANOTHER_CLUSTER)
            .map(|_| service.namespace);
        let is_selected = |pod: &&Pod| {
            let app = world
                .objects
                .pod_of(&pod.uid)
                .map_or(pod.app, |(_, object)| object.app);
            pod.namespace == service.namespace && service.selects == Some(app)
        };
        let by_controller =
            service.writer == Writer::Controller && !world.listed_by_hand.contains(service.name);
        Self {
            service: *service,
            is_proven: world.faultless
                && by_controller
                && !world.has_relabelled
                && named.iter().all(is_selected),
            namespaces: named
                .iter()
                .map(|pod| pod.namespace)
                .chain(of_another_cluster)
                .collect(),
        }
    }

    fn has(&self, (namespace, _): &(&'static str, String), pod: &PodObject) -> bool {
        let is_selected =
            *namespace == self.service.namespace && self.service.selects == Some(pod.app);
        is_selected || !self.is_proven && self.namespaces.contains(namespace)
    }
}

/// Whether only pods of another node than the pod's can get the IP, and that node has been there
/// all the time.
fn is_given_elsewhere(world: &World, pod: &PodObject, ip: Ip) -> bool {
    let range = ip.last[2];
    let node = world
        .cluster
        .ranges
        .iter()
        .position(|of| *of == Some(range));
    world.faultless
        && world.setup.ipam == Ipam::Node
        && node.is_some_and(|node| node != pod.node && !world.turned.contains(&node))
        && !world.turned.contains(&pod.node)
}

/// Gone from its node, and terminal as only a kubelet of today writes it, with this IP; or so when
/// an agent ended that denied it.
fn is_proven_dead(world: &World, service: &Service, uid: &str, ip: Ip) -> bool {
    let mut pods = world.cluster.pods.iter();
    let gone = pods.any(|pod| pod.uid == uid && pod.sandbox.is_none() && pod.over);
    let shown = world.objects.pod_of(uid).is_some_and(|(_, object)| {
        let kept = world
            .kept
            .contains(&(service.vip.of(ip.six), ip, octets(uid)));
        let current = world.cluster.kubelets[object.node] == Kubelet::Current;
        let shown = object.phase_by == "kubelet" && is_shown_over(object) && current;
        object.is_terminal() && object.shows(ip) && (shown || kept) && has_node(world, object)
    });
    gone && shown
}

fn is_shown_over(pod: &PodObject) -> bool {
    matches!(
        (pod.sandbox, pod.container),
        (Some((false, _)), Container::Ended(..))
    )
}

fn has_node(world: &World, pod: &PodObject) -> bool {
    world.cluster.ranges[pod.node].is_some()
}

/// Whether the pod would show the IP if it had it: one that shows no IP of that family may get one.
fn shows_all(world: &World, pod: &PodObject, ip: Ip) -> bool {
    is_settled(world, pod) && pod.families.contains(&ip.six)
}

/// Whether all its IPs are known: by the kubelet's clock, or by the order of events if an agent saw
/// them all.
fn is_settled(world: &World, pod: &PodObject) -> bool {
    let Some((true, up)) = pod.sandbox else {
        return false;
    };
    let is_settled = match pod.container {
        Container::Running(start) => start >= up || world.faultless,
        Container::Waiting(_) => world.faultless && pod.has_been_pulled,
        Container::Ended(..) => false,
    };
    is_settled && pod.ip.is_some() && pod.attached.len() < 2
}
