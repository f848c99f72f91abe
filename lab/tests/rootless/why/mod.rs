//! The output of `epguard why` on the recordings of a real cluster, compared as a whole with
//! `traces.txt` beside this file. A section of it begins with
//! `== RECORDING at MS ms: IP[:PORT] [SERVICE]`; the recording's first moment is 1970. To write it
//! anew: `EPGUARD_WRITE_GOLDEN=1`, then read the diff.

use super::fleet::world::{golden, recordings};
use epguard::commands::why::{WhyMoment, WhyQuestion, WhySubject, explain};
use epguard::shared::args::ServiceArgs;
use epguard_common::{Addr, Denial};
use epguard_core::facts::ObjectName;
use epguard_core::history::{Chronicle, History};
use epguard_core::state::{Endpoint, State};
use epguard_lab::replay::agent::Agent;
use epguard_lab::replay::recording::{Recording, What};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

/// The agent's history after a whole recording, its state then, and what it denied at each moment.
struct Remembered {
    agent: Agent,
    history: History,
    end: Duration,
    denied: BTreeMap<Duration, Vec<Line>>,
}

/// IP, Service, port, verdict, reason.
type Line = (IpAddr, String, u16, String, String);

fn denied(state: &State) -> Vec<Line> {
    let line = |(service, socket, denial): (&ObjectName, &Endpoint, &Denial)| {
        let held = state.is_pending(service, socket);
        let verdict = if held { "hold" } else { "deny" };
        let reason = denial.reason.as_str().to_owned();
        (
            socket.ip.ip(),
            service.to_string(),
            socket.port,
            verdict.to_owned(),
            reason,
        )
    };
    state.denials().map(line).collect()
}

impl Remembered {
    fn of(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("traces")
            .join(name);
        let recording = Recording::read(&dir).unwrap();
        let mut agent = Agent::new(&recording);
        let mut history = History::default();
        let (mut end, mut denied_at) = (Duration::ZERO, BTreeMap::new());
        for (at, what) in &recording.instants {
            if let What::Api(event) = what {
                agent.feed(*at, event).unwrap();
                history.record(*at, 0, &mut agent.state);
                // Times are in milliseconds: the last step within one counts.
                denied_at.insert(Duration::from_millis(millis(*at)), denied(&agent.state));
            }
            end = *at;
        }
        Self {
            agent,
            history,
            end,
            denied: denied_at,
        }
    }

    fn chronicle(&mut self, subject: WhySubject) -> Chronicle {
        let ip = Addr::from(subject.ip);
        let now_ms = millis(self.end) + 1;
        Chronicle {
            now_ms,
            wall_ms: i64::try_from(now_ms).unwrap(),
            mode: "enforce".to_owned(),
            ..self.history.chronicle(ip, self.agent.state.view(ip))
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}

fn at(ms: u64) -> WhyMoment {
    let at = jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap();
    WhyMoment::At(at)
}

#[test]
fn the_stored_verdicts_equal_the_denials_at_every_moment_of_every_recording() {
    let (mut compared, mut forgotten) = (0, 0);
    for name in recordings() {
        let mut remembered = Remembered::of(&name);
        let denied = std::mem::take(&mut remembered.denied);
        let ips: BTreeSet<IpAddr> = denied.values().flatten().map(|line| line.0).collect();
        for ip in ips {
            let subject = WhySubject { ip, port: None };
            let chronicle = remembered.chronicle(subject);
            for (then, expected) in &denied {
                let question = WhyQuestion {
                    subject,
                    services: ServiceArgs::default(),
                    at: Some(at(millis(*then))),
                };
                let explanation = explain(&chronicle, &question);
                if explanation.verdicts.is_empty() {
                    forgotten += 1;
                    continue;
                }
                let verdicts = explanation
                    .verdicts
                    .into_iter()
                    .filter(|verdict| verdict.verdict != "pass");
                let mut found: Vec<Line> = verdicts
                    .map(|v| {
                        (
                            ip,
                            v.service.unwrap(),
                            v.port.unwrap(),
                            v.verdict.into_owned(),
                            v.reason.unwrap().into_owned(),
                        )
                    })
                    .collect();
                let mut expected: Vec<Line> = expected
                    .iter()
                    .filter(|line| line.0 == ip)
                    .cloned()
                    .collect();
                found.sort();
                expected.sort();
                assert_eq!(found, expected, "{name} {ip} {}", explanation.at);
                compared += found.len();
            }
        }
    }
    println!("{compared} denials compared, {forgotten} moments forgotten");
    assert!(
        compared > 500 && forgotten < compared / 10,
        "{compared} {forgotten}"
    );
}

#[test]
fn why_answers_agree_with_every_recording() {
    let mut remembered: BTreeMap<String, Remembered> = BTreeMap::new();
    golden("why/traces.txt", |name, asked| {
        let (ms, asked) = asked.split_once(" ms: ").unwrap();
        let (subject, service) = asked
            .split_once(' ')
            .map_or((asked, None), |(ip, service)| (ip, Some(service)));
        let question = WhyQuestion {
            subject: subject.parse().unwrap(),
            services: ServiceArgs {
                service: service.map(str::to_owned),
                namespace: None,
            },
            at: Some(at(ms.parse().unwrap())),
        };
        let remembered = remembered
            .entry(name.to_owned())
            .or_insert_with(|| Remembered::of(name));
        explain(&remembered.chronicle(question.subject), &question).to_text()
    });
}
