//! One recording, replayed on a virtual clock.

#[cfg(test)]
mod tests;

use super::{
    judge::{Judge, Verdict},
    recording::{Recording, What},
    subject::Subject,
    truth::Truth,
    world::World,
};
use anyhow::{Context, Result};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

pub use super::timeline::Finding;
use super::timeline::Timeline;

/// What came of a replay.
#[derive(Debug, Clone, Serialize)]
pub struct Story {
    /// The recording's name.
    pub name: String,
    /// How long it lasted, s.
    pub seconds: f64,
    /// Watch events fed to the subject.
    pub events: usize,
    /// Instants judged: after each watch event and after each event on the node.
    pub instants: usize,
    /// Whether the recording tells who held the addresses; without, only proofs were checked.
    pub has_truth: bool,
    /// Everything denied, and everything that should have been.
    pub findings: Vec<Finding>,
    /// `namespace/name` of each pod by UID.
    #[serde(skip)]
    pub pods: BTreeMap<String, String>,
}

impl Story {
    /// How many findings have this verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.verdict == verdict)
            .count()
    }

    /// Whether anything was denied wrongly or without proof, or not denied.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.findings.iter().any(|finding| finding.verdict.is_fault())
    }
}

/// Replays a recording and judges the subject at every instant.
///
/// # Errors
/// If the subject can't take an event.
pub fn replay(recording: &Recording, subject: &mut dyn Subject) -> Result<Story> {
    let truth = Truth::of(recording);
    let mut world = World::default();
    let mut judge = Judge::new(&truth);
    let mut timeline = Timeline::default();
    let mut denials = Vec::new();
    let mut end = Duration::ZERO;
    let mut events = 0;
    for (at, what) in &recording.instants {
        if let Some(lease_end) = judge.lease_ends().filter(|lease_end| lease_end < at) {
            timeline.at(lease_end, Vec::new());
        }
        end = *at;
        if let What::Api(event) = what {
            events += 1;
            subject
                .feed(end, event)
                .with_context(|| format!("{}: at {} ms", recording.name, end.as_millis()))?;
            denials = subject.denials();
            world.apply(end, event);
            judge.learn(&world, end);
        }
        timeline.at(end, judge.judge(&world, &denials, end));
    }
    Ok(Story {
        name: recording.name.clone(),
        seconds: end.as_secs_f64(),
        events,
        instants: recording.instants.len(),
        has_truth: recording.has_truth(),
        findings: timeline.finish(end),
        pods: recording.pod_names(),
    })
}
