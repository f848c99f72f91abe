//! What one act of the demo has shown, and what it must.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use epguard_common::{Mode, Outcome, Reason};

use super::calls::Tally;
use super::stage::A;
use crate::scenario::agent::Agent;
use crate::scenario::counters::Counters;

/// Reports come through a ring buffer, a little after the verdict.
const PATIENCE: Duration = Duration::from_secs(3);

/// What one act has shown.
pub struct Act {
    /// Calls to A's Service.
    pub to_a: Tally,
    /// Calls to B's Service.
    pub to_b: Tally,
    /// What was counted meanwhile.
    pub counted: Counters,
    /// Calls that no line of the agent's log names.
    pub unreported: usize,
}

impl Act {
    /// What has to hold in a mode.
    pub fn checks(&self, mode: Mode) -> Vec<(bool, String)> {
        let (wrong, unanswered) = (self.to_a.wrong.len(), self.to_a.unanswered.len());
        let dropped = self.counted.with_outcome(Outcome::Dropped);
        let mut checks = vec![
            (
                self.to_b.right == self.to_b.calls,
                "B's own clients were not all answered by B".into(),
            ),
            (
                self.unreported == 0,
                format!(
                    "{} calls were not reported with both pods' names",
                    self.unreported
                ),
            ),
            (self.to_a.right > 0, "A's running pod answered nobody".into()),
        ];
        if mode == Mode::Enforce {
            checks.push((wrong == 0, format!("{wrong} calls for A were answered by B")));
            checks.push((unanswered > 0, "no call was denied".into()));
            checks.push((
                self.counted.of(Reason::Reused, Outcome::Dropped) > 0,
                "no packet was dropped as reused".into(),
            ));
        } else {
            checks.push((
                wrong > 0,
                "no call for A was answered by B, so there is nothing to show".into(),
            ));
            checks.push((unanswered == 0, format!("{unanswered} calls were not answered")));
            checks.push((dropped == 0, format!("{dropped} packets were dropped")));
        }
        checks
    }
}

/// For each client address the line of the agent's log that names its call, the Service and both pods.
pub fn reports(agent: &Agent, mode: Mode, clients: &[SocketAddr]) -> Vec<Option<String>> {
    let verb = if mode == Mode::Enforce {
        "denied"
    } else {
        "would deny"
    };
    let names = [
        format!("{verb} reason=\"reused\""),
        A.into(),
        "rd/ok-h8tsd".into(),
        "rd2/n3".into(),
    ];
    let deadline = Instant::now() + PATIENCE;
    loop {
        let log = agent.log();
        let report = |client: &SocketAddr| {
            let client = format!("client={client} ");
            log.lines()
                .find(|line| line.contains(&client) && names.iter().all(|name| line.contains(name)))
                .map(str::to_owned)
        };
        let reports: Vec<Option<String>> = clients.iter().map(report).collect();
        if reports.iter().all(Option::is_some) || Instant::now() > deadline {
            return reports;
        }
        thread::sleep(Duration::from_millis(10));
    }
}
