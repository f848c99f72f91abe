//! Performs a recording to a whole agent with its own watches, clock and maps.

use super::{
    judge::Judgement,
    recording::{Recording, What},
    story::{Story, Trial},
    stream::ApiEvent,
    subject::Denial,
};
use anyhow::{Context, Result, ensure};
use epguard_core::state::{DELAY, SPREAD};
use std::{future::Future, time::Duration};
use tokio::time::{Instant, sleep, sleep_until};

/// How long an agent may take to agree with the judge before its denials count: as long as a pending denial waits for its
/// confirmation, and a minute for a busy machine.
const SETTLE: Duration = SPREAD.saturating_add(DELAY).saturating_add(Duration::from_mins(1));

const POLL: Duration = Duration::from_millis(5);

/// An API server with an agent behind it.
pub trait Stage {
    /// Shows an event to every watch of the API server. `Reset` replaces the whole collection; `Closed` and
    /// `Resumed` are the beginning and end of an outage.
    fn ingest(&mut self, event: &ApiEvent) -> impl Future<Output = Result<()>>;

    /// The agent's denials now, from its maps.
    fn denials(&mut self) -> impl Future<Output = Result<Vec<Denial>>>;
}

/// Performs a recording, `speed` times as fast as it happened, and judges as on the virtual clock.
pub async fn perform(recording: &Recording, stage: &mut impl Stage, speed: f64) -> Result<Story> {
    ensure!(speed > 0.0, "a speed of {speed} would never end; 1 is real time");
    let mut begin = Instant::now();
    let mut trial = Trial::new(recording);
    let mut patience = SETTLE;
    for (at, what) in &recording.instants {
        // After a wait the story goes on at its normal pace: at a faster one, events that happened one after the other would
        // be shown at once, and streams keep no order between them.
        begin += (begin + at.div_f64(speed)).elapsed();
        sleep_until(begin + at.div_f64(speed)).await;
        if let What::Api(event) = what {
            stage
                .ingest(event)
                .await
                .with_context(|| format!("{}: at {} ms", recording.name, at.as_millis()))?;
        }
        trial.advance(*at, what);
        let judgements = settled(&trial, stage, patience).await?;
        if judgements.iter().any(|judgement| judgement.verdict.is_fault()) {
            patience = POLL;
        }
        trial.record(judgements);
    }
    Ok(trial.finish())
}

/// Polls until the agent agrees with the judge. Its denials then, or at the end of `patience`, count. After its first
/// fault a story does not wait any more.
async fn settled(trial: &Trial<'_>, stage: &mut impl Stage, patience: Duration) -> Result<Vec<Judgement>> {
    let deadline = Instant::now() + patience;
    loop {
        let judgements = trial.judge(&stage.denials().await?);
        let at_fault = judgements.iter().any(|judgement| judgement.verdict.is_fault());
        if !at_fault || Instant::now() >= deadline {
            return Ok(judgements);
        }
        sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{agent::Agent, judge::Verdict, subject::Subject};
    use std::path::Path;

    /// The state machine with a delay: each answer is the denials of `lag` answers ago.
    struct Slow {
        agent: Agent,
        now: Duration,
        lag: usize,
        answers: Vec<Vec<Denial>>,
    }

    impl Stage for Slow {
        async fn ingest(&mut self, event: &ApiEvent) -> Result<()> {
            self.now += Duration::from_millis(1);
            self.agent.feed(self.now, event)
        }

        async fn denials(&mut self) -> Result<Vec<Denial>> {
            self.answers.push(self.agent.denials());
            let index = self.answers.len().saturating_sub(1 + self.lag);
            Ok(self.answers[index].clone())
        }
    }

    async fn performed(lag: usize) -> Result<Story> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/d-job-ip-reuse");
        let recording = Recording::read(&dir).unwrap();
        let mut stage = Slow { agent: Agent::new(&recording), now: Duration::ZERO, lag, answers: Vec::new() };
        perform(&recording, &mut stage, 1000.0).await
    }

    #[tokio::test]
    async fn an_agent_that_needs_a_moment_passes() {
        let story = performed(3).await.unwrap();
        assert!(!story.failed());
        assert_eq!(story.count(Verdict::Ok), 4);
    }
}
