//! Clients that call at a steady pace, and what became of their calls.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::proxy::Protocol;
use crate::traffic::{Answer, Call, Client, Outcome};

/// A reply takes a millisecond.
const TIMEOUT: Duration = Duration::from_millis(700);

/// Who calls whom.
#[derive(Debug)]
pub struct Callers<'a> {
    /// Where the calls are made.
    pub client: Client,
    /// The Service's cluster IP and port.
    pub to: SocketAddr,
    /// Pods whose answers are right.
    pub rightful: &'a [&'a str],
}

/// What became of calls.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Calls that ended.
    pub calls: usize,
    /// Answered by a pod of the Service.
    pub right: usize,
    /// Answered by a pod that is not of the Service: where those calls came from.
    pub wrong: Vec<SocketAddr>,
    /// Not answered: where those calls came from.
    pub unanswered: Vec<SocketAddr>,
    /// The slowest answer.
    pub slowest: Duration,
}

impl Tally {
    fn add(&mut self, answer: Answer, rightful: &[&str]) {
        self.calls += 1;
        match answer.outcome {
            Outcome::Reply(pod) => {
                self.slowest = self.slowest.max(answer.latency);
                if rightful.contains(&&*pod) {
                    self.right += 1;
                } else {
                    self.wrong.extend(answer.local);
                }
            }
            _ => self.unanswered.extend(answer.local),
        }
    }
}

/// Every caller makes `calls` calls, one `every` so often, whatever became of the one before; `watch` sees the tallies grow.
pub fn paced<const N: usize>(
    callers: &[Callers<'_>; N],
    calls: usize,
    every: Duration,
    mut watch: impl FnMut(&[Tally; N]),
) -> [Tally; N] {
    let mut tallies = [const { Tally::NONE }; N];
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..calls {
                for (index, caller) in callers.iter().enumerate() {
                    let tell = tell.clone();
                    scope.spawn(move || {
                        let call = Call {
                            protocol: Protocol::Tcp,
                            to: caller.to,
                            from: None,
                            timeout: TIMEOUT,
                        };
                        let _ = tell.send((index, caller.client.call(call)));
                    });
                }
                thread::sleep(every);
            }
        });
        for (index, answer) in told {
            tallies[index].add(answer, callers[index].rightful);
            watch(&tallies);
        }
    });
    tallies
}

impl Tally {
    const NONE: Self = Self {
        calls: 0,
        right: 0,
        wrong: Vec::new(),
        unanswered: Vec::new(),
        slowest: Duration::ZERO,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(outcome: Outcome) -> Answer {
        Answer {
            outcome,
            latency: Duration::from_millis(1),
            local: Some(([10, 0, 0, 1], 4711).into()),
        }
    }

    #[test]
    fn an_answer_of_a_foreign_pod_is_a_wrong_one() {
        let mut tally = Tally::default();
        tally.add(answer(Outcome::Reply("A".into())), &["A"]);
        tally.add(answer(Outcome::Reply("B".into())), &["A"]);
        tally.add(answer(Outcome::TimedOut), &["A"]);
        assert_eq!(
            (
                tally.calls,
                tally.right,
                tally.wrong.len(),
                tally.unanswered.len()
            ),
            (3, 1, 1, 1)
        );
    }
}
