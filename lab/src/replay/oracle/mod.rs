//! The denials that the objects seen so far prove, by brute force, from the text of
//! docs/verdicts.md.
//!
//! Deliberately without indexes and without stored verdicts: each call reads all objects again.
//! Where the text is ambiguous, a denial is allowed but not required.

use super::pod::{self, RuleResult};
use super::recording::Kind;
use super::world::{Gone, Key, PodRecord, Standing, World};
use crate::object::{
    cluster_ips, endpoints, has_selector, is_virtual_kubelet, opted_out, pod_ranges, ports,
};
use crate::proxy::Protocol;
use epguard_common::Reason;
use serde_json::Value;
use std::net::IpAddr;
use std::{collections::BTreeSet, fmt, time::Duration};

/// A pair may leave the history this long after the last slice that listed it.
const HISTORY: Duration = Duration::from_mins(10);

/// A denied pair of Service and endpoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Denial {
    /// Service and endpoint.
    pub key: Key,
    /// The reason, and which packets are denied.
    pub shape: Shape,
    /// UID of the pod that was meant.
    pub meant: String,
    /// UID of the pod that has the IP now, if the reason needs one.
    pub owner: Option<String>,
}

/// A verdict without names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Which proof; never `terminated`, which rests on the node's routes.
    pub reason: Reason,
    /// Only TCP SYN and SCTP INIT, because the meant UID is Retired and may still serve what it
    /// began.
    pub openers_only: bool,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packets = if self.openers_only { " (openers)" } else { "" };
        write!(f, "{}{packets}", self.reason.as_str())
    }
}

/// A provable denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Whether a missing denial is a fault.
    pub required: bool,
    /// The verdicts that the proof allows, the exact one first.
    pub shapes: Vec<Shape>,
    /// UIDs that a denial may name as meant.
    pub meant: BTreeSet<String>,
    /// UID of the live pod that claims the IP.
    pub owner: Option<String>,
}

impl Proof {
    /// The denial that the agent should have made.
    pub fn denial(&self, key: &Key) -> Denial {
        Denial {
            key: key.clone(),
            shape: self.shapes[0],
            meant: self.meant.first().cloned().unwrap_or_default(),
            owner: self.owner.clone(),
        }
    }

    /// The difference between this denial and the proven one, if any.
    pub fn objection(&self, denial: &Denial) -> Option<String> {
        let proven = self.shapes[0];
        if !self.shapes.contains(&denial.shape) {
            Some(format!("proven is {proven}"))
        } else if !self.meant.contains(&denial.meant) {
            Some(format!("{} was not meant", denial.meant))
        } else if denial.shape.reason == Reason::Reused
            && denial.owner.is_some()
            && denial.owner != self.owner
        {
            Some("another pod claims the IP".into())
        } else {
            None
        }
    }
}

/// The provable denial of one endpoint of a Service, or the rule that forbids one.
pub fn prove(world: &World, key: &Key, now: Duration) -> Result<Proof, &'static str> {
    if !world.is_synced() {
        return Err("not every watch has shown its objects");
    }
    let service = world
        .listed
        .get(Kind::Service, &key.service)
        .ok_or("the Service does not exist")?;
    let vips = cluster_ips(service);
    if vips.is_empty() {
        return Err("the Service has no VIP");
    }
    if opted_out(service) {
        return Err("the Service opted out");
    }
    if world.infrastructure.contains(&key.ip) {
        return Err("the IP is a node's");
    }
    let required = world.is_watching()
        && vips.iter().any(|vip| vip.is_ipv4() == key.ip.is_ipv4())
        && !world.deleted_services.contains(&key.service);
    let mut case = Case {
        world,
        key,
        required,
    };
    let meant = case.meant(now)?;
    case.nobody_else_is_listed()?;
    if !has_selector(service) {
        case.still_lists(&meant)?;
    }
    let owner = case.owner()?;
    case.no_candidate(&meant, owner.as_deref())?;
    let mut shapes = case.strengths(&meant);
    if let Some(owner) = &owner {
        case.newer_than_retired(&meant, owner)?;
        for shape in &mut shapes {
            shape.reason = Reason::Reused;
        }
    } else if case.retired_stranger_claims(&meant) {
        case.required = false;
        for reason in [Reason::DeadBackend, Reason::Reused, Reason::RetiredBackend] {
            shapes.push(Shape {
                reason,
                openers_only: true,
            });
        }
    }
    // UDP has no opener, so a verdict about openers denies no packet of it.
    let required = case.required && (key.protocol != Protocol::Udp || !shapes[0].openers_only);
    Ok(Proof {
        required,
        shapes,
        meant,
        owner,
    })
}

/// An endpoint of a Service in question.
struct Case<'a> {
    world: &'a World,
    key: &'a Key,
    /// Whether a missing denial is a fault, by the rules so far.
    required: bool,
}

impl Case<'_> {
    /// The UIDs that were ever listed there. An error unless all of them are Retired or Dead.
    fn meant(&mut self, now: Duration) -> Result<BTreeSet<String>, &'static str> {
        let Self {
            world,
            key,
            required,
        } = self;
        let listings = world
            .listings
            .get(key)
            .ok_or("the Service never listed it")?;
        *required &= !listings.contains_key(&None);
        *required &= listings
            .values()
            .any(|&last| now.saturating_sub(last) < HISTORY);
        let uids: BTreeSet<String> = listings.keys().flatten().cloned().collect();
        if uids.is_empty() {
            return Err("the Service never listed it with a UID");
        }
        for uid in &uids {
            let standing = world.standing(uid);
            let record = match (standing, world.pods.get(uid)) {
                (Standing::Dead | Standing::Retired, Some(record)) => record,
                (Standing::Live, _) => return Err("a pod listed there lives"),
                _ => return Err("a UID listed there is neither Retired nor Dead"),
            };
            if pod::is_host_network(&record.object) {
                return Err("a pod listed there uses its node's network");
            }
            if opted_out(&record.object) {
                return Err("the pod opted out");
            }
            if node_of(world, &record.object).is_some_and(is_virtual_kubelet) {
                return Err("a virtual kubelet's status proves nothing");
            }
            *required &= record.claims.contains_key(&key.ip);
            *required &= standing == Standing::Dead || record.gone != Gone::Vanished;
        }
        Ok(uids)
    }

    fn nobody_else_is_listed(&self) -> Result<(), &'static str> {
        let Self { world, key, .. } = self;
        let listed = world
            .slices(&key.service)
            .flat_map(|slice| endpoints(slice));
        for endpoint in listed.filter(|endpoint| endpoint.ip == key.ip) {
            match endpoint.uid.map(|uid| world.standing(uid)) {
                Some(Standing::Dead | Standing::Retired) => {}
                Some(Standing::Live) => return Err("the Service lists the IP with a live UID"),
                Some(Standing::Unknown) => {
                    return Err("the Service lists the IP with an unknown UID");
                }
                None => return Err("the Service lists the IP without a UID"),
            }
        }
        Ok(())
    }

    /// For a Service without a selector, whose slices alone name its pods: an error if they no
    /// longer list a meant pod.
    fn still_lists(&mut self, meant: &BTreeSet<String>) -> Result<(), &'static str> {
        let Self { world, key, .. } = *self;
        let mut elsewhere = false;
        for slice in world.slices(&key.service) {
            for endpoint in endpoints(slice) {
                let aims = endpoint.uid.is_some_and(|uid| meant.contains(uid));
                let mut ports = ports(slice).map(|port| (port.number, port.protocol));
                if aims
                    && endpoint.ip == key.ip
                    && ports.any(|port| port == (key.port, key.protocol))
                {
                    return Ok(());
                }
                elsewhere |= aims;
            }
        }
        self.required = false;
        if elsewhere {
            Ok(())
        } else {
            Err("the Service, without a selector, no longer lists it")
        }
    }

    /// An error if a pod of the Service may hold the IP unpublished. It may not where a stranger
    /// shows the IP and the selector proves.
    fn no_candidate(
        &mut self,
        meant: &BTreeSet<String>,
        owner: Option<&str>,
    ) -> Result<(), &'static str> {
        let Self {
            world,
            key,
            required,
        } = self;
        if let Some(stranger) = owner.and_then(|uid| world.pods.get(uid))
            && world.selector_proves(key)
        {
            match pod::may_hold_unpublished(&stranger.object) {
                RuleResult::No => return Ok(()),
                RuleResult::Perhaps => *required = false,
                RuleResult::Yes => {}
            }
        }
        let own = world
            .live_pods()
            .filter(|(_, record)| world.is_own(key, &record.object));
        for (_, PodRecord { object, .. }) in own {
            match pod::may_hold_unpublished(object) {
                // Whether its node hands out such IPs depends on how fresh the Nodes are.
                RuleResult::Yes if is_of_other_range(world, key.ip, meant, object) => {
                    *required = false;
                }
                RuleResult::Yes => return Err("a pod of the Service may hold the IP unpublished"),
                RuleResult::Perhaps => *required = false,
                RuleResult::No => {}
            }
        }
        Ok(())
    }

    /// The one live pod that claims the IP, if any.
    fn owner(&self) -> Result<Option<String>, &'static str> {
        let Self { world, key, .. } = self;
        let mut claimants = world
            .live_pods()
            .filter(|(_, record)| pod::ips(&record.object).contains(&key.ip));
        let Some((uid, record)) = claimants.next() else {
            return Ok(None);
        };
        if world.is_own(key, &record.object) {
            return Err("a live pod of the Service claims the IP");
        }
        if opted_out(&record.object) {
            return Err("the pod that claims the IP opted out");
        }
        if claimants.next().is_some() {
            return Err("two live pods claim the IP");
        }
        Ok(Some(uid.to_owned()))
    }

    /// All packets if every meant pod is Dead; only openers if a Retired one may still serve
    /// connections from before.
    fn strengths(&self, meant: &BTreeSet<String>) -> Vec<Shape> {
        let (dead, retired): (Vec<&String>, Vec<&String>) = meant
            .iter()
            .partition(|uid| self.world.standing(uid) == Standing::Dead);
        let all = Shape {
            reason: Reason::DeadBackend,
            openers_only: false,
        };
        let openers = Shape {
            reason: Reason::RetiredBackend,
            openers_only: true,
        };
        match (
            retired.is_empty(),
            retired.iter().all(|old| {
                dead.iter()
                    .any(|new| self.order(new, old) != RuleResult::No)
            }),
        ) {
            (true, _) => vec![all],
            (false, true) => vec![openers, all],
            (false, false) => vec![openers],
        }
    }

    fn newer_than_retired(
        &mut self,
        meant: &BTreeSet<String>,
        owner: &str,
    ) -> Result<(), &'static str> {
        for uid in meant
            .iter()
            .filter(|uid| self.world.standing(uid) == Standing::Retired)
        {
            match self.order(owner, uid) {
                RuleResult::Yes => {}
                RuleResult::Perhaps => self.required = false,
                RuleResult::No => return Err("which claim of the IP is newer is unknown"),
            }
        }
        Ok(())
    }

    /// Whether one pod's claim is newer than another's; across a gap in the watch the order is
    /// uncertain.
    fn order(&self, newer: &str, older: &str) -> RuleResult {
        let claim = |uid| self.world.pods.get(uid)?.claims.get(&self.key.ip);
        match (claim(newer), claim(older)) {
            (Some(new), Some(old)) if new > old && *old >= self.world.pods_listed => {
                RuleResult::Yes
            }
            (Some(new), Some(old)) if new > old => RuleResult::Perhaps,
            _ => RuleResult::No,
        }
    }

    /// True if a finished pod that was never listed there publishes the IP and is not proven dead.
    /// The text does not say if that is a claim, so a denial of fewer packets is accepted.
    fn retired_stranger_claims(&self, meant: &BTreeSet<String>) -> bool {
        let Self { world, key, .. } = self;
        world.pods.iter().any(|(uid, record)| {
            record.gone == Gone::No
                && !meant.contains(uid)
                && world.standing(uid) == Standing::Retired
                && pod::ips(&record.object).contains(&key.ip)
        })
    }
}

/// True if the IP lies in the ranges of a node on which a meant pod ran, and the pod is on another
/// node.
fn is_of_other_range(world: &World, ip: IpAddr, meant: &BTreeSet<String>, pod: &Value) -> bool {
    let pods = meant.iter().filter_map(|uid| world.pods.get(uid));
    let mut nodes = pods.filter_map(|record| node_of(world, &record.object));
    nodes.any(|node| {
        let is_elsewhere = node["metadata"]["name"] != pod["spec"]["nodeName"];
        is_elsewhere && pod_ranges(node).any(|range| range.contains(ip.into()))
    })
}

fn node_of<'a>(world: &'a World, pod: &Value) -> Option<&'a Value> {
    let mut nodes = world.listed.of(Kind::Node).map(AsRef::as_ref);
    nodes.find(|node| node["metadata"]["name"] == pod["spec"]["nodeName"])
}

#[cfg(test)]
mod tests;
