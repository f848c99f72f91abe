//! One recording, replayed on a virtual clock.

#[cfg(test)]
mod tests;

use super::{
    judge::{Judge, Judgement, Verdict},
    recording::{Recording, What},
    subject::{Denial, Subject},
    truth::Truth,
    world::World,
};
use anyhow::{Context, Result};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

pub use super::timeline::Finding;
use super::timeline::Timeline;

/// The result of a replay.
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
    /// Whether the recording has the holders of the addresses; without them, only proofs were checked.
    pub has_truth: bool,
    /// All denials, and all that are missing.
    pub findings: Vec<Finding>,
    /// `namespace/name` of each pod by UID.
    #[serde(skip)]
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

/// Replays a recording and judges the subject at every instant.
pub fn replay(recording: &Recording, subject: &mut dyn Subject) -> Result<Story> {
    let mut trial = Trial::new(recording);
    let mut denials = Vec::new();
    for (at, what) in &recording.instants {
        trial.advance(*at, what);
        if let What::Api(event) = what {
            subject
                .feed(*at, event)
                .with_context(|| format!("{}: at {} ms", recording.name, at.as_millis()))?;
            denials = subject.denials();
        }
        let judgements = trial.judge(&denials);
        trial.record(judgements);
    }
    Ok(trial.finish())
}

/// A recording in progress: the objects and the findings so far.
pub(super) struct Trial<'a> {
    recording: &'a Recording,
    now: Duration,
    world: World,
    judge: Judge,
    timeline: Timeline,
}

impl<'a> Trial<'a> {
    pub(super) fn new(recording: &'a Recording) -> Self {
        Self {
            recording,
            now: Duration::ZERO,
            world: World::default(),
            judge: Judge::new(Truth::of(recording)),
            timeline: Timeline::default(),
        }
    }

    /// Goes on to the next instant.
    pub(super) fn advance(&mut self, at: Duration, what: &What) {
        if let Some(lease_end) = self.judge.lease_ends().filter(|&lease_end| lease_end < at) {
            self.timeline.at(lease_end, Vec::new());
        }
        self.now = at;
        if let What::Api(event) = what {
            self.world.apply(at, event);
            self.judge.learn(&self.world, at);
        }
    }

    /// The verdicts on these denials at this instant.
    pub(super) fn judge(&self, denials: &[Denial]) -> Vec<Judgement> {
        self.judge.judge(&self.world, denials, self.now)
    }

    /// Makes this instant's verdicts final.
    pub(super) fn record(&mut self, judgements: Vec<Judgement>) {
        self.timeline.at(self.now, judgements);
    }

    pub(super) fn finish(self) -> Story {
        let Self { recording, now, .. } = self;
        let api = |what: &What| matches!(what, What::Api(_));
        Story {
            name: recording.name.clone(),
            seconds: now.as_secs_f64(),
            events: recording.instants.iter().filter(|(_, what)| api(what)).count(),
            instants: recording.instants.len(),
            has_truth: recording.has_truth(),
            findings: self.timeline.finish(now),
            pods: recording.pod_names(),
        }
    }
}
