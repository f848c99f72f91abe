//! Agents that deny too much or too little, on real recordings.

use super::super::{oracle::Shape, world::Key};
use super::*;
use crate::proxy::Protocol;
use epguard_common::Reason;
use std::path::Path;

type Tamper = Box<dyn FnMut(Vec<Denial>) -> Vec<Denial>>;

pub(crate) fn recording(name: &str) -> Recording {
    Recording::read(
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("traces")
            .join(name),
    )
    .unwrap()
}

/// Replays to the agent's state machine with its denials tampered with.
fn tampered(recording: &Recording, mut tamper: Tamper) -> Story {
    replay(recording, |agent| tamper(agent.denials())).unwrap()
}

fn as_it_is() -> Tamper {
    Box::new(|denials| denials)
}

fn each(mut change: impl FnMut(&mut Denial) + 'static) -> Tamper {
    Box::new(move |mut denials| {
        denials.iter_mut().for_each(&mut change);
        denials
    })
}

/// `dead-backend` for all packets of a Service to an IP, and no other denial.
fn dead_backend(service: &str, ip: &str, meant: &str) -> Tamper {
    let key = Key {
        service: service.into(),
        ip: ip.parse().unwrap(),
        port: 8080,
        protocol: Protocol::Tcp,
    };
    let shape = Shape {
        reason: Reason::DeadBackend,
        openers_only: false,
    };
    let denial = Denial {
        key,
        shape,
        meant: meant.into(),
        owner: None,
    };
    Box::new(move |_| vec![denial.clone()])
}

/// `verdict from..to why` of a Service's findings, whole milliseconds.
fn findings(story: &Story, service: &str) -> Vec<String> {
    let mut shown = Vec::new();
    for finding in &story.findings {
        if finding.denial.key.service == service {
            let verdict = finding.verdict;
            let from = finding.from.as_millis();
            let to = finding.to.as_millis();
            let why = finding.why.as_deref().unwrap_or_default();
            shown.push(format!("{verdict} {from}..{to} {why}"));
        }
    }
    shown
}

#[test]
fn the_agents_state_machine_passes_every_recording() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let dirs = std::fs::read_dir(traces)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut passed = 0;
    for dir in dirs.filter(|dir| dir.is_dir()) {
        let story = tampered(&Recording::read(&dir).unwrap(), as_it_is());
        assert!(!story.failed(), "{}", super::super::cli::findings(&story));
        passed += 1;
    }
    assert_eq!(passed, 20);
}

/// An agent that denies too much or too little on a recording.
struct Fault {
    recording: &'static str,
    tamper: Tamper,
    service: &'static str,
    /// All findings of the Service that have one of these findings' verdicts.
    findings: &'static [&'static str],
}

/// `dead-backend` for all packets of a Service to an IP, as if this pod had died.
fn denies_pod(recording_name: &str, service: &str, ip: &str, pod: &str) -> Tamper {
    let names = recording(recording_name).pod_names();
    let (meant, _) = names.iter().find(|(_, name)| *name == pod).unwrap();
    dead_backend(service, ip, meant)
}

fn faults_in_proofs() -> [Fault; 4] {
    [
        Fault {
            // A denial is missing from the event that completes its proof.
            recording: "d-job-ip-reuse",
            tamper: Box::new(|_| Vec::new()),
            service: "rd/s",
            findings: &[
                "missing 7080..7877 ",
                "missing 7093..7890 ",
                "missing 7877..10903 ",
                "missing 7890..10903 ",
            ],
        },
        Fault {
            // All packets to a retired pod: wrong while it runs, unproven after.
            recording: "c-force-delete",
            tamper: each(|denial| denial.shape.openers_only = false),
            service: "rc/web",
            findings: &[
                "wrong 2350..5430 rc/stubborn was meant and still holds the IP",
                "unproven 5430..16263 proven is retired-backend (openers)",
                "unproven 16263..19003 proven is reused (openers)",
            ],
        },
        Fault {
            recording: "t-drain",
            tamper: each(|denial| denial.shape.openers_only = true),
            service: "rt/web",
            findings: &["unproven 3979..5920 proven is dead-backend"],
        },
        Fault {
            recording: "d-job-ip-reuse",
            tamper: each(|denial| {
                if denial.owner.is_some() {
                    denial.owner = Some("another".into());
                }
            }),
            service: "rd/s",
            findings: &[
                "unproven 7877..10903 another pod claims the IP",
                "unproven 7890..10903 another pod claims the IP",
            ],
        },
    ]
}

fn faults_at_held_ips() -> [Fault; 4] {
    [
        Fault {
            // A live pod that was meant has the IP from then on.
            recording: "d-job-ip-reuse",
            tamper: denies_pod("d-job-ip-reuse", "rd2/s", "10.244.1.10", "rd2/n4"),
            service: "rd2/s",
            findings: &["wrong 7460..10903 rd2/n4 was meant and still holds the IP"],
        },
        Fault {
            // Unpublished pods of the Service hold the IP.
            recording: "s-churn-4-addresses",
            tamper: denies_pod(
                "s-churn-4-addresses",
                "rs2/s",
                "10.244.1.10",
                "rs2/j2-jqwjf",
            ),
            service: "rs2/s",
            findings: &[
                "wrong 952..4500 rs2/j2-jqwjf was meant and still holds the IP",
                "wrong 5759..9451 rs2/j2-kpdnx holds the IP and is the Service's own",
                "wrong 16796..20515 rs2/j2-k5nzb holds the IP and is the Service's own",
            ],
        },
        Fault {
            recording: "o-hostnetwork",
            tamper: denies_pod("o-hostnetwork", "ro/s", "10.250.0.11", "ro/j-88wgt"),
            service: "ro/s",
            findings: &["wrong 23..8963 a node's own address"],
        },
        Fault {
            // After its lease a denial is no longer in force.
            recording: "m-apiserver-outage",
            tamper: denies_pod("m-apiserver-outage", "rm/s", "10.244.1.13", "rm/k1"),
            service: "rm/s",
            findings: &[
                "wrong 1009..21123 rm/k1 was meant and still holds the IP",
                "wrong 28547..99461 rm/k1 was meant and still holds the IP",
            ],
        },
    ]
}

#[test]
fn a_denial_that_differs_from_the_proven_one_is_a_fault() {
    for fault in faults_in_proofs().into_iter().chain(faults_at_held_ips()) {
        let story = tampered(&recording(fault.recording), fault.tamper);
        let verdict = |finding: &str| finding.split(' ').next().unwrap().to_owned();
        let verdicts: Vec<String> = fault.findings.iter().copied().map(verdict).collect();
        let mut found = findings(&story, fault.service);
        found.retain(|finding| verdicts.contains(&verdict(finding)));
        assert_eq!(found, fault.findings);
        assert!(story.failed());
    }
}

#[test]
fn a_static_pod_is_meant_under_each_of_its_mirrors_uids() {
    let recording = recording("k-static-pod");
    for mirror in recording.pod_names().into_keys() {
        let found = findings(
            &tampered(&recording, dead_backend("rk/s", "10.244.1.4", &mirror)),
            "rk/s",
        );
        let wrong = found
            .iter()
            .find(|found| found.starts_with("wrong"))
            .expect("the static pod lives on without its mirror");
        assert!(
            wrong.starts_with("wrong 630..75407 rk/st-node-a"),
            "{wrong}"
        );
    }
}

#[test]
fn a_retired_pod_that_still_runs_is_counted_apart_by_the_nodes_side() {
    let mut recording = recording("c-force-delete");
    for (has_truth, counts) in [(true, [2, 1]), (false, [2, 0])] {
        recording
            .instants
            .retain(|(_, what)| has_truth || matches!(what, What::Api(_)));
        let story = tampered(&recording, as_it_is());
        assert_eq!((story.has_truth, story.failed()), (has_truth, false));
        assert_eq!(
            [Verdict::Ok, Verdict::StillAlive].map(|verdict| story.count(verdict)),
            counts
        );
    }
}
