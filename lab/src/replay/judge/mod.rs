//! One recording, replayed: the verdicts at each instant, on each denial and on each that is
//! missing, and their story.

use super::agent::ReplayedAgent;
use super::oracle::{self, Denial, Proof};
use super::recording::{ApiEvent, Recording, What};
use super::truth::{PodIdentity, Truth};
use super::world::{Key, Standing, World};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The kernel keeps denials this long after the last watch was seen running.
const LEASE: Duration = Duration::from_secs(15);

/// The verdict on a denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Verdict {
    /// Proven, and no backend of the Service holds the IP.
    Ok,
    /// Proven, openers only, while the Retired pod still holds the IP: no fault, but reported.
    #[strum(to_string = "alive")]
    StillAlive,
    /// A rightful receiver holds the IP.
    Wrong,
    /// Provable, and not denied.
    Missing,
    /// Harmless as it happened, but without proof.
    Unproven,
}

impl Verdict {
    /// Whether it makes a replay fail.
    pub const fn is_fault(self) -> bool {
        matches!(self, Self::Wrong | Self::Missing | Self::Unproven)
    }
}

/// A denial, or the lack of one, from one instant to another with the same verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The denial, or the one that is missing.
    pub denial: Denial,
    /// What it is worth.
    pub verdict: Verdict,
    /// When it began, virtual time.
    pub from: Duration,
    /// When it ended; at the end of the recording at the latest.
    pub to: Duration,
    /// Pods that held the IP during the span, by the node's records.
    pub hit: BTreeSet<String>,
    /// The reason, for a fault.
    pub why: Option<String>,
}

/// Compares the denials with the pods that really held the IPs, and with the provable denials.
#[derive(Debug, Default)]
struct Judge {
    truth: Truth,
    world: World,
    /// Time since which not all watches run; none before they all ran once.
    blind_since: Option<Duration>,
    proofs: BTreeMap<Key, Proof>,
}

impl Judge {
    /// Stores an API event and the denials that are provable after it.
    fn learn(&mut self, now: Duration, event: &ApiEvent) {
        self.world.apply(now, event);
        self.proofs = self
            .world
            .listings
            .keys()
            .filter_map(|key| Some((key.clone(), oracle::prove(&self.world, key, now).ok()?)))
            .collect();
        self.blind_since = if self.world.is_watching() {
            None
        } else {
            self.blind_since.or(Some(now))
        };
    }

    /// The time at which the kernel stops denying because not all watches run. Before the first
    /// view there is no lease, and every denial is judged.
    fn lease_ends(&self) -> Option<Duration> {
        self.blind_since.map(|since| since + LEASE)
    }

    /// Judges one instant; denials whose lease has ended do not count.
    fn judge(&self, denials: &[Denial], now: Duration) -> Vec<Finding> {
        if self.lease_ends().is_some_and(|end| now >= end) {
            return Vec::new();
        }
        let is_denied = |key: &Key| denials.iter().any(|denial| denial.key == *key);
        let missing = self
            .proofs
            .iter()
            .filter(|(key, proof)| proof.required && !is_denied(key))
            .map(|(key, proof)| (proof.denial(key), true));
        let all = denials
            .iter()
            .map(|denial| (denial.clone(), false))
            .chain(missing);
        let judged = all.map(|(denial, is_missing)| {
            let holders = self.truth.holders(denial.key.ip, now);
            let (verdict, why) = if is_missing {
                (Verdict::Missing, None)
            } else {
                self.verdict(&denial, &holders, now)
            };
            let hit = holders.into_iter().map(|holder| holder.name).collect();
            Finding {
                denial,
                verdict,
                from: now,
                to: now,
                hit,
                why,
            }
        });
        judged.collect()
    }

    fn verdict(
        &self,
        denial: &Denial,
        holders: &[PodIdentity],
        now: Duration,
    ) -> (Verdict, Option<String>) {
        if self.world.infrastructure.contains(&denial.key.ip) {
            return (Verdict::Wrong, Some("a node's own address".into()));
        }
        let mut verdict = Verdict::Ok;
        for holder in holders {
            let claim = if holder.uids.contains(&denial.meant) {
                "was meant and still holds the IP"
            } else if self
                .truth
                .object(holder, now)
                .is_some_and(|object| self.world.is_own(&denial.key, object))
            {
                "holds the IP and is the Service's own"
            } else {
                continue;
            };
            if !self.serves_only_what_it_began(denial, holder) {
                return (Verdict::Wrong, Some(format!("{} {claim}", holder.name)));
            }
            verdict = Verdict::StillAlive;
        }
        let objection = match self.proofs.get(&denial.key) {
            Some(proof) => proof.objection(denial),
            None => oracle::prove(&self.world, &denial.key, now)
                .err()
                .map(str::to_owned),
        };
        (
            if objection.is_some() {
                Verdict::Unproven
            } else {
                verdict
            },
            objection,
        )
    }

    /// Kubernetes sends a Retired pod no new flow, and only new ones are denied.
    fn serves_only_what_it_began(&self, denial: &Denial, holder: &PodIdentity) -> bool {
        denial.shape.openers_only
            && !holder.uids.is_empty()
            && holder
                .uids
                .iter()
                .all(|uid| self.world.standing(uid) == Standing::Retired)
    }
}

/// The result of a replay.
#[derive(Debug, Clone)]
pub struct Story {
    /// The recording's name.
    pub name: String,
    /// How long it lasted, s.
    pub seconds: f64,
    /// Watch events fed to the agent.
    pub events: usize,
    /// Instants judged: after each watch event and after each event on the node.
    pub instants: usize,
    /// Whether the recording has the holders of the addresses; without them, only proofs were
    /// checked.
    pub has_truth: bool,
    /// All denials, and all that are missing, in the order of their beginning.
    pub findings: Vec<Finding>,
    /// `namespace/name` of each pod by UID.
    pub pods: BTreeMap<String, String>,
}

impl Story {
    /// How many findings have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.verdict == verdict)
            .count()
    }

    /// Whether anything was denied wrongly or without proof, or not denied.
    pub fn failed(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.verdict.is_fault())
    }
}

/// Replays a recording to the agent's state machine on a virtual clock, and judges at every instant
/// what `denials` says it denies.
pub fn replay(
    recording: &Recording,
    mut denials: impl FnMut(&ReplayedAgent) -> Vec<Denial>,
) -> Result<Story> {
    let mut agent = ReplayedAgent::new(recording);
    let mut judge = Judge {
        truth: Truth::of(recording),
        ..Judge::default()
    };
    let mut timeline = Timeline::default();
    let mut end = Duration::ZERO;
    for (at, what) in &recording.instants {
        if let Some(lease_end) = judge.lease_ends().filter(|lease_end| lease_end < at) {
            timeline.at(lease_end, Vec::new());
        }
        if let What::Api(event) = what {
            let fed = agent.feed(*at, event);
            fed.with_context(|| format!("{}: at {} ms", recording.name, at.as_millis()))?;
            judge.learn(*at, event);
        }
        timeline.at(*at, judge.judge(&denials(&agent), *at));
        end = *at;
    }
    Ok(Story {
        name: recording.name.clone(),
        seconds: end.as_secs_f64(),
        events: recording
            .instants
            .iter()
            .filter(|(_, what)| matches!(what, What::Api(_)))
            .count(),
        instants: recording.instants.len(),
        has_truth: recording.has_truth(),
        findings: timeline.finish(end),
        pods: recording.pod_names(),
    })
}

/// Joins the verdicts of successive instants.
#[derive(Debug, Default)]
struct Timeline {
    open: BTreeMap<(Denial, Verdict), Finding>,
    closed: Vec<Finding>,
}

impl Timeline {
    fn at(&mut self, now: Duration, found: Vec<Finding>) {
        let mut before = std::mem::take(&mut self.open);
        for found in found {
            let key = (found.denial.clone(), found.verdict);
            let mut finding = before.remove(&key).unwrap_or_else(|| found.clone());
            finding.hit.extend(found.hit);
            self.open.insert(key, finding);
        }
        self.closed.extend(
            before
                .into_values()
                .map(|finding| Finding { to: now, ..finding }),
        );
    }

    fn finish(mut self, now: Duration) -> Vec<Finding> {
        self.at(now, Vec::new());
        self.closed
            .sort_by_key(|finding| (finding.from, finding.denial.clone()));
        self.closed
    }
}

#[cfg(test)]
pub(super) mod tests;
