//! Destinations of the kernel's own IPVS, made by `ipvsadm`.

use super::rig::{command, endpoint, fall_behind, node, stage, v4, v6, vip};
use epguard_lab::scenario::stage::Stage;
use serde_json::{Value, json};

/// Each Service leads to its pod; gone's gets no new connections.
const WEIGHTS: [(&str, &str, &str); 3] = [
    ("old/web", "web", "1"),
    ("old/gone", "gone", "0"),
    ("ok/api", "api", "1"),
];

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn dead_destinations_of_the_kernels_ipvs_are_listed_with_their_service() {
    for variant in [v4(), v6()] {
        let mut stage = stage(variant);
        let listed = node(&stage).command("ipvsadm").args(["-L", "-n"]).output();
        if !listed.is_ok_and(|listed| listed.status.success()) {
            println!("this kernel has no IPVS, or there is no ipvsadm: `cargo xtask kernel` has both");
            return;
        }
        for (service, pod, weight) in WEIGHTS {
            let (vip, endpoint) = (
                vip(&stage, service).to_string(),
                endpoint(&stage, pod).to_string(),
            );
            ipvsadm(&stage, &["-A", "-t", &vip, "-s", "rr"]);
            ipvsadm(&stage, &["-a", "-t", &vip, "-r", &endpoint, "-m", "-w", weight]);
        }
        fall_behind(&mut stage);
        let expected = [("old/gone", "gone", 0), ("old/web", "web", 1)].map(|(service, pod, weight)| {
            json!([
                service,
                endpoint(&stage, pod).to_string(),
                format!("{} weight {weight}", vip(&stage, service)),
            ])
        });
        assert_eq!(destinations(&stage), expected);
        println!("{variant}: {expected:?}");
    }
}

fn ipvsadm(stage: &Stage, arguments: &[&str]) {
    let done = node(stage).command("ipvsadm").args(arguments).status().unwrap();
    assert!(done.success(), "ipvsadm {arguments:?}");
}

/// Service, endpoint and place of each destination, sorted.
fn destinations(stage: &Stage) -> Vec<Value> {
    let output = command(stage, &["-o", "json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let mut found: Vec<Value> = findings
        .filter(|finding| finding["kind"] == "ipvs-destination")
        .map(|finding| json!([finding["service"], finding["endpoint"], finding["at"]]))
        .collect();
    found.sort_by_key(ToString::to_string);
    found
}
