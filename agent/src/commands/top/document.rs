//! A sample as a document, a line each: for `kubectl epguard`, which adds up all nodes.

use super::sample::{Agent, Sample};
use crate::commands::status::{Problem, problems};
use crate::shared::drops::Dropped;
use crate::shared::status::{Status, lenient};
use epguard_common::{Outcome, Reason};
use serde::{Deserialize, Serialize};

/// One line of `epguard top -o json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// None while no agent answers.
    pub agent: Option<Answers>,
    /// The kernel's counts of packets; none while the datapath is detached.
    #[serde(deserialize_with = "lenient::optional")]
    pub counters: Option<Vec<Counted>>,
    /// Why a part is missing.
    pub errors: Vec<String>,
}

/// The agent's answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answers {
    /// What keeps the agent from its work.
    pub problems: Vec<Problem>,
    /// Its state, without names.
    pub status: Status,
    /// Denied flows.
    #[serde(deserialize_with = "lenient::items")]
    pub drops: Vec<Dropped>,
}

/// Packets of one verdict.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Counted {
    /// Which proof held.
    pub reason: Reason,
    /// What was done.
    pub outcome: Outcome,
    /// Packets since the datapath was attached.
    pub packets: u64,
}

impl From<Sample> for Document {
    fn from(sample: Sample) -> Self {
        let mut errors = Vec::new();
        let mut failed = |error| errors.push(format!("{error:#}"));
        let agent = sample.agent.map_err(&mut failed).ok();
        let counters = sample.counters.map_err(&mut failed).ok();
        let counted = |((reason, outcome), count): ((Reason, Outcome), epguard_common::Count)| Counted {
            reason,
            outcome,
            packets: count.packets,
        };
        Self {
            agent: agent.map(|Agent { status, drops, .. }| Answers {
                problems: problems(&status),
                status,
                drops,
            }),
            counters: counters.map(|counters| counters.into_iter().map(counted).collect()),
            errors,
        }
    }
}
