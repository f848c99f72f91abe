//! The output of `epguard why` on the recordings of a real cluster, compared as a whole with
//! `traces.txt` beside this file. A section of it begins with
//! `== RECORDING at MS ms: IP[:PORT] [SERVICE]`; the recording's first moment is 1970. To write it
//! anew: `EPGUARD_WRITE_GOLDEN=1`, then read the diff.

use super::fleet::world::{golden, recordings};
use clap::builder::StyledStr;
use epguard::shared::args::ServiceArgs;
use epguard::shared::screen::Screen;
use epguard_client::answers::why::{WhyMoment, WhyQuestion, WhySubject, explain};
use epguard_common::Addr;
use epguard_core::history::{Chronicle, History};
use epguard_core::state::{State, report};
use epguard_lab::replay::agent::ReplayedAgent;
use epguard_lab::replay::recording::{Recording, What};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

/// Every time and UID, in lines of any width.
const FULL: Screen = Screen {
    width: None,
    full: true,
};

/// The agent's history after a whole recording, its state then, and what it denied at each moment.
struct Remembered {
    agent: ReplayedAgent,
    history: History,
    end: Duration,
    denied: BTreeMap<Duration, Vec<Line>>,
}

/// One verdict on an endpoint that is not `pass`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    ip: IpAddr,
    service: String,
    port: u16,
    verdict: String,
    reason: String,
}

fn denied(state: &State) -> Vec<Line> {
    let mut lines = Vec::new();
    for (service, endpoint, denial) in state.denials() {
        let verdict = if state.is_stopped(service, endpoint) {
            "stopped"
        } else {
            "deny"
        };
        lines.push(Line {
            ip: endpoint.ip.ip(),
            service: service.to_string(),
            port: endpoint.port,
            verdict: verdict.to_owned(),
            reason: denial.reason.as_str().to_owned(),
        });
    }
    lines
}

impl Remembered {
    fn of(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("traces")
            .join(name);
        let recording = Recording::read(&dir).unwrap();
        let mut agent = ReplayedAgent::new(&recording);
        let mut history = History::default();
        let mut end = Duration::ZERO;
        let mut denied_at = BTreeMap::new();
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
            ..self
                .history
                .chronicle(ip, report::view_ip(&self.agent.state, ip))
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
    let mut compared = 0;
    let mut forgotten = 0;
    for name in recordings() {
        let mut remembered = Remembered::of(&name);
        let denied = std::mem::take(&mut remembered.denied);
        let ips: BTreeSet<IpAddr> = denied.values().flatten().map(|line| line.ip).collect();
        for ip in ips {
            let subject = WhySubject { ip, port: None };
            let chronicle = remembered.chronicle(subject);
            for (then, all_expected) in &denied {
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
                let mut found = Vec::new();
                for verdict in explanation.verdicts {
                    if verdict.verdict != "pass" {
                        found.push(Line {
                            ip,
                            service: verdict.service.unwrap(),
                            port: verdict.port.unwrap(),
                            verdict: verdict.verdict.into_owned(),
                            reason: verdict.reason.unwrap().into_owned(),
                        });
                    }
                }
                let mut expected = all_expected.clone();
                expected.retain(|line| line.ip == ip);
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
                ..ServiceArgs::default()
            },
            at: Some(at(ms.parse().unwrap())),
        };
        let remembered = remembered
            .entry(name.to_owned())
            .or_insert_with(|| Remembered::of(name));
        let explanation = explain(&remembered.chronicle(question.subject), &question);
        StyledStr::from(explanation.to_text(FULL)).to_string()
    });
}
