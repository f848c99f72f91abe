//! The contents of the screen: the last sample, and the rates up to it.

use super::controls::Controls;
use super::rates::{History, Meter};
use super::sample::{Agent, Sample};
use crate::kernel::maps::Counters;
use crate::shared::drops::{Dropped, Kind};
use anyhow::{Error, Result};
use epguard_common::{Effect, Mode, Outcome, Reason};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// All that the screen is made of.
#[derive(Debug)]
pub(super) struct Model {
    /// The agent's last answers, aged up to now.
    pub(super) agent: Agent,
    /// Packets by verdict.
    pub(super) verdicts: Meter<(Reason, Outcome)>,
    /// Packets by flow.
    pub(super) flows: Meter<Kind>,
    /// Packets a second that were stopped, or in observe would have been.
    pub(super) history: History,
    /// Why a part is not of this moment.
    pub(super) trouble: Option<String>,
    /// The settings that keys change.
    pub(super) controls: Controls,
    at: Duration,
}

impl Model {
    /// Makes a model of the first sample. Errors: a part of it could not be read.
    pub(super) fn new(first: Sample) -> Result<Self> {
        let mut model = Self {
            agent: first.agent?,
            verdicts: Meter::new(),
            flows: Meter::new(),
            history: History::default(),
            trouble: None,
            controls: Controls::default(),
            at: first.at,
        };
        model.flows.read(first.at, packets(&model.agent.drops));
        model.count(first.at, &first.counters?);
        Ok(model)
    }

    /// Takes the next sample in, unless the screen is paused.
    pub(super) fn refresh(&mut self, sample: Sample) {
        if self.controls.paused {
            return;
        }
        self.trouble = None;
        match sample.counters {
            Ok(counters) => self.count(sample.at, &counters),
            Err(error) => {
                self.verdicts.missed();
                self.trouble = Some(format!("{error:#}"));
            }
        }
        match sample.agent {
            Ok(agent) => self.update(sample.at, agent),
            Err(error) => {
                self.flows.missed();
                self.age(sample.at.saturating_sub(self.at));
                self.trouble = Some(format!("agent does not answer: {}", cause(&error)));
            }
        }
        if sample.renewed {
            self.verdicts.missed();
            self.flows.missed();
        }
        if let Some(rate) = self.verdicts.sum(|(_, outcome)| self.drawn(*outcome)) {
            self.history.push(rate);
        }
        self.at = sample.at;
    }

    /// Whether denied packets are stopped here.
    pub(super) fn enforces(&self) -> bool {
        self.agent.status.mode == Some(Mode::Enforce)
    }

    /// Whether the curve shows packets of this outcome: stopped packets, or where nothing is stopped, observed ones.
    fn drawn(&self, outcome: Outcome) -> bool {
        if self.enforces() {
            matches!(outcome.effect(), Effect::Stopped(_))
        } else {
            outcome == Outcome::Observed
        }
    }

    fn update(&mut self, at: Duration, agent: Agent) {
        self.flows.read(at, packets(&agent.drops));
        let enforced = self.enforces();
        self.agent = agent;
        if self.enforces() != enforced {
            // The curve shows another kind of packets now.
            self.history = History::default();
        }
    }

    fn count(&mut self, at: Duration, counters: &Counters) {
        let packets = counters.iter().map(|(key, count)| (*key, count.packets));
        self.verdicts.read(at, packets.collect());
    }

    /// Ages the agent's last answers: without the agent, the lease runs on and the view grows old.
    fn age(&mut self, by: Duration) {
        let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        let Agent { status, drops, .. } = &mut self.agent;
        status.lease_ms = status.lease_ms.saturating_sub_unsigned(ms);
        status.view_age_ms = status.view_age_ms.map(|age| age.saturating_add(ms));
        for dropped in drops {
            dropped.last_ms_ago = dropped.last_ms_ago.saturating_add(ms);
        }
    }
}

fn packets(drops: &[Dropped]) -> BTreeMap<Kind, u64> {
    let counts = drops
        .iter()
        .map(|dropped| (dropped.kind.clone(), dropped.packets));
    counts.collect()
}

/// The part of an error that is new to the reader, who knows the socket and has read the remedy.
fn cause(error: &Error) -> String {
    match error.root_cause().downcast_ref::<io::Error>() {
        Some(cause) => cause.to_string(),
        None => format!("{error:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::fixture::{agent, counters, model};
    use super::*;
    use anyhow::anyhow;

    fn refused() -> Error {
        Error::new(io::Error::from(io::ErrorKind::ConnectionRefused)).context("no agent answers at /run/x")
    }

    fn sample(seconds: u64, agent: Result<Agent>, counters: Result<Counters>) -> Sample {
        Sample {
            at: Duration::from_secs(seconds),
            agent,
            counters,
            renewed: false,
        }
    }

    #[test]
    fn top_fails_with_the_agents_error_if_no_agent_answers_at_its_start() {
        let error = Model::new(sample(1, Err(refused()), Ok(counters(0)))).unwrap_err();
        assert!(
            format!("{error:#}").starts_with("no agent answers at /run/x"),
            "{error:#}"
        );
    }

    #[test]
    fn after_an_agent_stops_its_last_status_and_the_kernels_rates_stay() {
        let mut model = model();
        let (lease, seen) = (model.agent.status.lease_ms, model.agent.drops[0].last_ms_ago);
        model.refresh(sample(4, Err(refused()), Ok(counters(50))));
        assert_eq!(
            model.trouble.as_deref(),
            Some("agent does not answer: connection refused")
        );
        assert_eq!(model.agent.status.lease_ms, lease - 2000);
        assert_eq!(model.agent.drops[0].last_ms_ago, seen + 2000);
        assert_eq!(model.flows.rate(&model.agent.drops[0].kind), None);
        let dropped = model.verdicts.rate(&(Reason::Reused, Outcome::Dropped));
        assert_eq!(dropped.unwrap().tenths, 150);
    }

    #[test]
    fn a_new_agent_that_counts_from_zero_has_rates_from_zero() {
        let mut model = model();
        model.refresh(sample(3, Err(refused()), Ok(counters(20))));
        let mut anew = agent(0);
        anew.drops[0].packets = 4;
        model.refresh(sample(4, Ok(anew), Ok(counters(20))));
        assert_eq!(model.trouble, None);
        assert_eq!(model.flows.rate(&model.agent.drops[0].kind).unwrap().tenths, 20);
    }

    #[test]
    fn a_missing_datapath_is_named_and_its_rates_are_unknown() {
        let mut model = model();
        model.refresh(sample(3, Ok(agent(20)), Err(anyhow!("no map at /p"))));
        assert_eq!(model.trouble.as_deref(), Some("no map at /p"));
        assert_eq!(model.verdicts.sum(|_| true), None);
    }

    #[test]
    fn a_pause_keeps_everything_as_it_is() {
        let mut model = model();
        model.controls.paused = true;
        model.refresh(sample(9, Err(refused()), Ok(counters(0))));
        assert_eq!((model.trouble, model.at), (None, Duration::from_secs(2)));
    }
}
