//! Calls in one mode after the other: what clients see, and what epguard counts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use epguard_common::{Mode, Outcome, Reason};

use super::cluster::Cluster;
use super::counters::Counters;
use super::format::{Action, By, Call, Scenario, Sees};
use super::stage::Stage;
use super::traffic::{Clients, describe};
use super::vacancy::await_vacancy;
use super::variant::Variant;
use super::watched::Watched;
use crate::neighbour::Kind;
use crate::net::Cni;

/// For what is counted when its client is done, or a moment later on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// No packet of a finished call takes longer to its next hop, unless the machine is busy.
const QUIET: Duration = Duration::from_millis(2);

/// A series of calls, in one mode after the other.
#[derive(Debug)]
pub struct Series<'a> {
    mode: Mode,
    enforce_retired: bool,
    action: By,
    pin_dir: &'a Path,
    cluster: &'a Cluster,
    neighbour: Option<Watched<'a>>,
    variant: Variant,
    /// Reasons of denied flows that are still open and may send again at any time.
    noisy: BTreeSet<Reason>,
}

impl<'a> Series<'a> {
    /// Of calls on this stage.
    pub fn new(scenario: &Scenario, stage: &'a Stage, variant: Variant) -> Self {
        let neighbour = stage.neighbour.as_ref();
        let action = variant
            .action
            .or(scenario.agent.action)
            .map_or(By::Drop, Action::by);
        Self {
            mode: Mode::Off,
            enforce_retired: scenario.agent.enforce_retired,
            action: match action {
                // Nothing is written on packets beside it, and answers of epguard's need a mark.
                By::Reject | By::Capture
                    if neighbour.is_some_and(|neighbour| neighbour.kind() == Kind::Greedy) =>
                {
                    By::Drop
                }
                action => action,
            },
            pin_dir: stage.agent.pin_dir(),
            cluster: &stage.cluster,
            neighbour: neighbour.map(Watched::new),
            variant,
            noisy: BTreeSet::new(),
        }
    }

    /// The calls that follow are judged in this mode.
    pub fn enter(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Makes the requests of one call. The error says what was expected and what was seen instead.
    pub fn make(&mut self, call: &Call, clients: &mut Clients) -> Result<()> {
        let denied = match &call.denied {
            Some(_) if self.mode == Mode::Off => None,
            Some(text) => Some(Reason::parse(text).with_context(|| format!("there is no reason {text}"))?),
            None => None,
        };
        if let (Some(Reason::Terminated), Some(to)) = (denied, &call.call) {
            await_vacancy(self.pin_dir, self.cluster.names.address(to)?, PATIENCE)?;
        }
        let by = call.by.unwrap_or(self.action);
        let answer = if by == By::Reject { "refused" } else { "nothing" };
        let stopped = Sees::Always(answer.into());
        let sees = match (self.mode, denied) {
            (Mode::Enforce, Some(reason)) => match &call.enforced {
                Some(sees) => sees,
                None if self.only_observes(call, reason) => &call.sees,
                None if matches!(call.sees, Sees::Mixed(_)) => &call.sees,
                None => &stopped,
            },
            (Mode::Enforce, None) => call.enforced.as_ref().unwrap_or(&call.sees),
            _ => &call.sees,
        };
        let before = self.quiet()?;
        let judged = self.neighbour.as_ref().map(Watched::verdicts).transpose()?;
        let answers = clients.make(call, sees, self.cluster, self.variant)?;
        self.quiet()?;
        self.counted(call, denied, &before, &answers)
            .and_then(|()| as_expected(sees, &answers))
            .and_then(|()| match (&self.neighbour, judged) {
                (Some(neighbour), Some(before)) => neighbour.check(call, self.mode, before),
                _ => Ok(()),
            })
            .with_context(|| format!("{} in mode {}", describe(call), self.mode.as_str()))?;
        if let (Some(_), Some(reason)) = (&call.on, denied) {
            self.noisy.insert(reason);
        }
        Ok(())
    }

    /// The counters once they stand still: the last packets of earlier calls are through.
    fn quiet(&self) -> Result<Counters> {
        let deadline = Instant::now() + PATIENCE;
        let mut last = Counters::read(self.pin_dir)?;
        loop {
            thread::sleep(QUIET);
            let now = Counters::read(self.pin_dir)?;
            if now == last || Instant::now() >= deadline {
                return Ok(now);
            }
            last = now;
        }
    }

    fn only_observes(&self, call: &Call, reason: Reason) -> bool {
        call.only_observed
            || match reason {
                Reason::RetiredBackend => !self.enforce_retired,
                Reason::Terminated => self.variant.cni == Cni::Bridge,
                _ => false,
            }
    }

    fn counted(&self, call: &Call, denied: Option<Reason>, before: &Counters, seen: &[String]) -> Result<()> {
        let least = match call.sees {
            Sees::Always(_) => u64::from(call.times),
            Sees::Mixed(_) => 1,
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = Counters::read(self.pin_dir)?.since(before);
            if let Some(reason) = self.unwanted(denied, &now) {
                let what = if denied.is_none() {
                    "nothing denied".into()
                } else {
                    format!("only {}", words(denied))
                };
                anyhow::bail!(
                    "expected {what}, seen {}: counted {now}; {}",
                    reason.as_str(),
                    summary(seen)
                );
            }
            ensure!(
                self.mode == Mode::Enforce
                    || Outcome::STOPPED
                        .iter()
                        .all(|outcome| now.with_outcome(*outcome) == 0),
                "expected that every packet passes, seen: counted {now}; {}",
                summary(seen)
            );
            let missing = self.missing(call, denied, least, &now);
            let Some(missing) = missing else { return Ok(()) };
            ensure!(
                Instant::now() < deadline,
                "expected {missing} counted, seen: counted {now}; {}",
                summary(seen)
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// What follows in a flow that was steered is counted under no reason: it is no denial.
    fn unwanted(&self, denied: Option<Reason>, counted: &Counters) -> Option<Reason> {
        Reason::ALL
            .into_iter()
            .filter(|reason| {
                Some(*reason) != denied && *reason != Reason::Nothing && !self.noisy.contains(reason)
            })
            .find(|reason| counted.denials(*reason) > 0)
    }

    fn missing(&self, call: &Call, denied: Option<Reason>, least: u64, now: &Counters) -> Option<String> {
        if let Some(reason) = denied {
            let enforced = self.mode == Mode::Enforce && !self.only_observes(call, reason);
            let outcome = if enforced {
                call.by.unwrap_or(self.action).outcome()
            } else {
                Outcome::Observed
            };
            if now.of(reason, outcome) < least {
                return Some(format!(
                    "at least {least} {}/{}",
                    reason.as_str(),
                    outcome.as_str()
                ));
            }
        }
        if self.mode == Mode::Off {
            return None;
        }
        let uncounted = call.counted.iter().find(|text| {
            let outcome = Outcome::ALL
                .into_iter()
                .find(|outcome| outcome.as_str() == **text);
            outcome.is_none_or(|outcome| now.with_outcome(outcome) == 0)
        });
        uncounted.map(|text| format!("at least one {text}"))
    }
}

fn as_expected(sees: &Sees, answers: &[String]) -> Result<()> {
    let allowed = sees.allowed();
    let as_said = answers.iter().all(|word| allowed.contains(word));
    let complete = matches!(sees, Sees::Always(_)) || allowed.iter().all(|word| answers.contains(word));
    ensure!(as_said && complete, "expected {sees}, {}", summary(answers));
    Ok(())
}

/// `clients saw B (3 times)`.
fn summary(seen: &[String]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in seen {
        *counts.entry(word).or_default() += 1;
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(word, count)| format!("{word} ({count} of {})", seen.len()))
        .collect();
    format!("clients saw {}", counts.join(", "))
}

fn words(reason: Option<Reason>) -> &'static str {
    reason.map_or("none", Reason::as_str)
}
