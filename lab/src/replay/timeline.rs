//! Joins the verdicts of instants to spans.

use super::{
    judge::{Judgement, Verdict},
    subject::Denial,
};
use serde::{Serialize, Serializer};
use std::{collections::BTreeMap, time::Duration};

/// A denial, or the lack of one, from one instant to another with the same verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The denial, or the one that is missing.
    #[serde(flatten)]
    pub denial: Denial,
    /// The verdict.
    pub verdict: Verdict,
    /// When it began, virtual time.
    #[serde(rename = "from_ms", serialize_with = "millis")]
    pub from: Duration,
    /// When it ended; at the end of the recording at the latest.
    #[serde(rename = "to_ms", serialize_with = "millis")]
    pub to: Duration,
    /// Pods that held the IP during the span, by the node's records.
    pub hit: Vec<String>,
    /// The reason, for a fault.
    pub why: Option<String>,
}

/// Joins the verdicts of successive instants.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    open: BTreeMap<(Denial, Verdict), Finding>,
    closed: Vec<Finding>,
}

impl Timeline {
    pub(super) fn at(&mut self, now: Duration, judgements: Vec<Judgement>) {
        let mut before = std::mem::take(&mut self.open);
        for Judgement { denial, verdict, hit, why } in judgements {
            let key = (denial.clone(), verdict);
            let mut finding = before.remove(&key).unwrap_or(Finding {
                denial,
                verdict,
                from: now,
                to: now,
                hit: Vec::new(),
                why,
            });
            for pod in hit {
                if !finding.hit.contains(&pod) {
                    finding.hit.push(pod);
                }
            }
            self.open.insert(key, finding);
        }
        self.close(now, before);
    }

    /// All findings in the order of their beginning.
    pub(super) fn finish(mut self, now: Duration) -> Vec<Finding> {
        let open = std::mem::take(&mut self.open);
        self.close(now, open);
        self.closed.sort_by_key(|finding| (finding.from, finding.denial.clone()));
        self.closed
    }

    fn close(&mut self, now: Duration, ended: BTreeMap<(Denial, Verdict), Finding>) {
        self.closed.extend(ended.into_values().map(|finding| Finding { to: now, ..finding }));
    }
}

fn millis<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1000.0)
}
