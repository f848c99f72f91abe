//! Who calls whom, and bursts of such calls.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::proxy::Protocol;
use crate::traffic::{Call, Client, Outcome};

/// Calls of each caller in an act.
pub const CALLS: usize = 12;
/// Between two calls of a burst: few enough a second for epguard to report every packet.
const PACE: Duration = Duration::from_millis(40);
/// Below the second after which TCP would repeat a SYN: what is denied is one packet a call.
const TIMEOUT: Duration = Duration::from_millis(800);

/// A team and its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Team {
    /// domain-a, whose Job ends.
    A,
    /// domain-b, which gets the address.
    B,
}

/// The caller outside of the cluster, whose calls the proxy masquerades.
pub const OUTSIDE: &str = "outside → NodePort of report";

/// Somebody who makes calls.
#[derive(Clone, Debug)]
pub struct Caller {
    /// For people.
    pub who: &'static str,
    /// Whom they mean to call.
    pub meant: Team,
    /// Where they are.
    pub client: Client,
    /// What they call.
    pub to: SocketAddr,
}

/// What a caller saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// This team's pod answered.
    Answer(Team),
    /// Nothing came.
    TimedOut,
    /// `ECONNREFUSED`.
    Refused,
    /// Anything else.
    Other(String),
}

/// How a call ended, and after what time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What came.
    pub seen: Seen,
    /// From the SYN on.
    pub latency: Duration,
}

/// The answers so far: a row for each caller, a place for each call.
pub type Answers = Vec<Vec<Option<Answer>>>;

/// Lets everybody call [`CALLS`] times, in turns, and tells `show` after each answer. `act` keeps source ports apart.
pub fn burst(callers: &[Caller], act: u16, mut show: impl FnMut(&Answers)) -> Answers {
    let mut answers: Answers = vec![vec![None; CALLS]; callers.len()];
    show(&answers);
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        scope.spawn(move || {
            let mut ports = 20_000 + 1000 * act..;
            for call in 0..CALLS {
                for (row, caller) in callers.iter().enumerate() {
                    let port = ports.next().unwrap_or_default();
                    let tell = tell.clone();
                    scope.spawn(move || tell.send((row, call, ask(caller, port))));
                    thread::sleep(PACE);
                }
            }
        });
        for (row, call, answer) in told {
            answers[row][call] = Some(answer);
            show(&answers);
        }
    });
    answers
}

fn ask(caller: &Caller, port: u16) -> Answer {
    let answer = caller.client.call(Call {
        protocol: Protocol::Tcp,
        to: caller.to,
        from: Some((Ipv4Addr::UNSPECIFIED, port).into()),
        timeout: TIMEOUT,
    });
    let seen = match answer.outcome {
        Outcome::Reply(pod) if pod == "A" => Seen::Answer(Team::A),
        Outcome::Reply(pod) if pod == "B" => Seen::Answer(Team::B),
        Outcome::TimedOut => Seen::TimedOut,
        Outcome::Refused => Seen::Refused,
        other => Seen::Other(other.to_string()),
    };
    Answer {
        seen,
        latency: answer.latency,
    }
}
