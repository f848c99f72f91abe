//! One recording, replayed and judged at every instant.

#[cfg(test)]
mod tests;

use super::{
    agent::Agent,
    judge::{Finding, Judge, Verdict},
    oracle::Denial,
    recording::{Recording, What},
    truth::Truth,
    world::World,
};
use anyhow::{Context, Result};
use std::{collections::BTreeMap, time::Duration};

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
    /// Whether the recording has the holders of the addresses; without them, only proofs were checked.
    pub has_truth: bool,
    /// All denials, and all that are missing, in the order of their beginning.
    pub findings: Vec<Finding>,
    /// `namespace/name` of each pod by UID.
    pub pods: BTreeMap<String, String>,
}

impl Story {
    /// How many findings have this verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }

    /// Whether anything was denied wrongly or without proof, or not denied.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.findings.iter().any(|finding| finding.verdict.is_fault())
    }
}

/// Replays a recording to the agent's state machine on a virtual clock, and judges at every instant what `denials` says it
/// denies.
pub fn replay(recording: &Recording, mut denials: impl FnMut(&Agent) -> Vec<Denial>) -> Result<Story> {
    let mut agent = Agent::new(recording);
    let (mut world, mut judge) = (World::default(), Judge::new(Truth::of(recording)));
    let (mut timeline, mut end) = (Timeline::default(), Duration::ZERO);
    for (at, what) in &recording.instants {
        if let Some(lease_end) = judge.lease_ends().filter(|lease_end| lease_end < at) {
            timeline.at(lease_end, Vec::new());
        }
        if let What::Api(event) = what {
            let fed = agent.feed(*at, event);
            fed.with_context(|| format!("{}: at {} ms", recording.name, at.as_millis()))?;
            world.apply(*at, event);
            judge.learn(&world, *at);
        }
        timeline.at(*at, judge.judge(&world, &denials(&agent), *at));
        end = *at;
    }
    Ok(Story {
        name: recording.name.clone(),
        seconds: end.as_secs_f64(),
        events: recording.instants.iter().filter(|(_, what)| matches!(what, What::Api(_))).count(),
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
            let hit = found.hit.clone();
            let mut finding = before.remove(&key).unwrap_or(Finding { hit: Vec::new(), ..found });
            for pod in hit {
                if !finding.hit.contains(&pod) {
                    finding.hit.push(pod);
                }
            }
            self.open.insert(key, finding);
        }
        self.closed.extend(before.into_values().map(|finding| Finding { to: now, ..finding }));
    }

    fn finish(mut self, now: Duration) -> Vec<Finding> {
        self.at(now, Vec::new());
        self.closed.sort_by_key(|finding| (finding.from, finding.denial.clone()));
        self.closed
    }
}
