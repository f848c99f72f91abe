//! Agents that deny too much or too little, on real recordings.

use super::{
    super::{oracle::Shape, world::Key},
    *,
};
use crate::proxy::Protocol;
use epguard_common::Reason;
use std::path::Path;

/// Replays to the agent's state machine with its denials tampered with.
fn replayed(recording: &Recording, mut tamper: impl FnMut(Vec<Denial>) -> Vec<Denial>) -> Story {
    replay(recording, |agent| tamper(agent.denials())).unwrap()
}

fn tampered(name: &str, tamper: impl FnMut(Vec<Denial>) -> Vec<Denial>) -> Story {
    replayed(&recording(name), tamper)
}

fn recording(name: &str) -> Recording {
    Recording::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("traces").join(name)).unwrap()
}

fn uid(name: &str, pod: &str) -> String {
    let names = recording(name).pod_names();
    names.into_iter().find(|(_, name)| name == pod).unwrap().0
}

fn dead_backend(service: &str, ip: &str, meant: &str) -> Denial {
    Denial {
        key: Key { service: service.into(), ip: ip.parse().unwrap(), port: 8080, protocol: Protocol::Tcp },
        shape: Shape { reason: Reason::DeadBackend, openers_only: false },
        meant: meant.into(),
        owner: None,
    }
}

/// `verdict from..to why` of a Service's findings, whole milliseconds.
fn findings(story: &Story, service: &str) -> Vec<String> {
    let of_service = story.findings.iter().filter(|finding| finding.denial.key.service == service);
    of_service
        .map(|finding| {
            let (from, to) = (finding.from.as_millis(), finding.to.as_millis());
            format!("{} {from}..{to} {}", finding.verdict, finding.why.as_deref().unwrap_or_default())
        })
        .collect()
}

#[test]
fn the_agents_state_machine_passes_every_recording() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let mut passed = 0;
    for entry in std::fs::read_dir(traces).unwrap() {
        let dir = entry.unwrap().path();
        if dir.is_dir() {
            let recording = Recording::read(&dir).unwrap();
            let story = replayed(&recording, |denials| denials);
            assert!(!story.failed(), "{}", super::super::cli::findings(&story));
            passed += 1;
        }
    }
    assert_eq!(passed, 20);
}

#[test]
fn a_denial_is_missing_from_the_event_that_completes_the_proof() {
    let story = tampered("d-job-ip-reuse", |_| Vec::new());
    assert_eq!(story.count(Verdict::Missing), 4);
    assert!(findings(&story, "rd/s").contains(&"missing 7080..7877 ".into()));
    assert!(story.failed());
}

#[test]
fn a_denial_against_a_live_pod_that_was_meant_is_wrong_from_the_moment_it_has_the_ip() {
    let name = "d-job-ip-reuse";
    let live = dead_backend("rd2/s", "10.244.1.10", &uid(name, "rd2/n4"));
    let story = tampered(name, |_| vec![live.clone()]);
    let wrong = "wrong 7460..10903 rd2/n4 was meant and still holds the IP";
    assert!(findings(&story, "rd2/s").contains(&wrong.into()), "{:?}", findings(&story, "rd2/s"));
}

#[test]
fn a_denial_is_wrong_while_an_unpublished_pod_of_the_service_holds_the_ip() {
    let name = "s-churn-4-addresses";
    let stale = dead_backend("rs2/s", "10.244.1.10", &uid(name, "rs2/j2-jqwjf"));
    let story = tampered(name, |_| vec![stale.clone()]);
    let unpublished = "rs2/j2-kpdnx holds the IP and is the Service's own";
    let found = story.findings.iter().find(|finding| finding.why.as_deref() == Some(unpublished));
    let found = found.expect("a finding about the pod that reused the address");
    assert_eq!((found.verdict, found.from.as_millis()), (Verdict::Wrong, 5759));
}

#[test]
fn denying_all_packets_to_a_retired_pod_is_wrong_while_it_runs_and_unproven_after() {
    let all_packets = |denials: Vec<Denial>| {
        let shape =
            |denial: Denial| Denial { shape: Shape { openers_only: false, ..denial.shape }, ..denial };
        denials.into_iter().map(shape).collect()
    };
    let story = tampered("c-force-delete", all_packets);
    assert_eq!(
        findings(&story, "rc/web"),
        [
            "wrong 2350..5430 rc/stubborn was meant and still holds the IP",
            "unproven 5430..16263 proven is retired-backend (openers)",
            "unproven 16263..19003 proven is reused (openers)",
        ]
    );
}

#[test]
fn denying_only_openers_of_a_dead_pod_is_unproven() {
    let story = tampered("t-drain", |mut denials| {
        for denial in &mut denials {
            denial.shape.openers_only = true;
        }
        denials
    });
    assert_eq!(findings(&story, "rt/web"), ["unproven 3979..5920 proven is dead-backend"]);
}

#[test]
fn naming_the_wrong_owner_is_unproven() {
    let story = tampered("d-job-ip-reuse", |mut denials| {
        for denial in &mut denials {
            denial.owner = denial.owner.as_ref().map(|_| "somebody".into());
        }
        denials
    });
    assert_eq!(story.count(Verdict::Unproven), 2);
    assert_eq!(story.findings.last().unwrap().why.as_deref(), Some("another pod claims the IP"));
}

#[test]
fn a_nodes_address_is_wrong_to_deny() {
    let name = "o-hostnetwork";
    let node = dead_backend("ro/s", "10.250.0.11", &uid(name, "ro/j-88wgt"));
    let story = tampered(name, |_| vec![node.clone()]);
    assert!(story.findings.iter().any(|finding| finding.why.as_deref() == Some("a node's own address")));
}

#[test]
fn a_static_pod_is_meant_under_each_of_its_mirrors_uids() {
    let name = "k-static-pod";
    let mirrors = recording(name).pod_names().into_keys();
    for mirror in mirrors {
        let denial = dead_backend("rk/s", "10.244.1.4", &mirror);
        let story = tampered(name, |_| vec![denial.clone()]);
        let wrong = findings(&story, "rk/s").into_iter().find(|found| found.starts_with("wrong"));
        let wrong = wrong.expect("the static pod lives on without its mirror");
        assert!(wrong.starts_with("wrong 630..75407 rk/st-node-a"), "{wrong}");
    }
}

#[test]
fn a_retired_pod_that_still_runs_is_counted_apart() {
    let story = tampered("c-force-delete", |denials| denials);
    assert_eq!(story.count(Verdict::StillAlive), 1);
    assert!(!story.failed());
}

#[test]
fn after_the_lease_a_denial_is_no_longer_in_force() {
    let name = "m-apiserver-outage";
    let live = dead_backend("rm/s", "10.244.1.13", &uid(name, "rm/k1"));
    let found = findings(&tampered(name, |_| vec![live.clone()]), "rm/s");
    let wrong: Vec<_> = found.iter().filter(|found| found.starts_with("wrong")).collect();
    assert_eq!(wrong.len(), 2, "{found:?}");
    assert!(wrong[0].starts_with("wrong 1009..21123 "), "{found:?}");
    assert!(wrong[1].starts_with("wrong 28547..99461 "), "{found:?}");
}

#[test]
fn without_the_nodes_side_only_proofs_count() {
    let mut recording = recording("c-force-delete");
    recording.instants.retain(|(_, what)| matches!(what, What::Api(_)));
    let story = replayed(&recording, |denials| denials);
    assert!(!story.has_truth && !story.failed());
    assert_eq!((story.count(Verdict::Ok), story.count(Verdict::StillAlive)), (2, 0));
}
