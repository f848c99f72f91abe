//! The alerts, checked by promtool, and what each of them has.

use super::text;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the files of the alerts and of the dashboard expect the pages' place.
const RUNBOOKS: &str = "RUNBOOKS/";

/// Each alert by its name.
fn alerts() -> BTreeMap<String, Value> {
    let file: Value = serde_saphyr::from_str(&text("chart/files/alerts.yaml")).unwrap();
    let rules = file["groups"][0]["rules"].as_array().unwrap();
    let alerts: BTreeMap<String, Value> = rules
        .iter()
        .map(|rule| (rule["alert"].as_str().unwrap().to_owned(), rule.clone()))
        .collect();
    assert_eq!(alerts.len(), rules.len(), "two alerts have the same name");
    alerts
}

fn tests() -> Value {
    serde_saphyr::from_str(include_str!("alerts_test.yaml")).unwrap()
}

/// The anchors that a forge gives the headings of a page below `docs/`.
fn anchors(page: &str) -> BTreeSet<String> {
    let page = text(&format!("../docs/{page}"));
    let headings = page.lines().filter_map(|line| line.strip_prefix("##"));
    headings
        .map(|heading| {
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = heading
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// Panics if the link does not lead to a heading of a page.
pub(super) fn check_runbook(link: &str) {
    let target = link
        .strip_prefix(RUNBOOKS)
        .and_then(|rest| rest.split_once('#'));
    let Some((page, anchor)) = target else {
        panic!("{link} is not {RUNBOOKS}PAGE#ANCHOR");
    };
    assert!(
        anchors(page).contains(anchor),
        "{page} has no heading for #{anchor}"
    );
}

#[test]
fn each_alert_has_a_severity_a_wait_a_summary_a_description_and_a_runbook_that_exists() {
    for (name, alert) in alerts() {
        let severity = alert["labels"]["severity"].as_str().unwrap_or_default();
        assert!(
            ["critical", "warning", "info"].contains(&severity),
            "{name}: severity {severity:?}"
        );
        for field in [
            &alert["for"],
            &alert["annotations"]["summary"],
            &alert["annotations"]["description"],
        ] {
            assert!(
                field.as_str().is_some_and(|text| !text.is_empty()),
                "{name}: {alert}"
            );
        }
        check_runbook(
            alert["annotations"]["runbook_url"]
                .as_str()
                .unwrap_or(&name),
        );
    }
}

#[test]
fn each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() {
    let mut firing = BTreeSet::new();
    let mut silent = BTreeSet::new();
    for test in tests()["tests"].as_array().unwrap() {
        for case in test["alert_rule_test"].as_array().unwrap() {
            let name = case["alertname"].as_str().unwrap().to_owned();
            if case["exp_alerts"].is_array() {
                firing.insert(name);
            } else {
                silent.insert(name);
            }
        }
    }
    let all: BTreeSet<String> = alerts().into_keys().collect();
    assert_eq!(firing, all, "alerts that a case sees fire, and all alerts");
    assert_eq!(
        silent, all,
        "alerts that a case sees silent, and all alerts"
    );
}

#[test]
#[ignore = "needs promtool: cargo xtask setup installs it"]
fn promtool_accepts_the_alerts_and_they_fire_when_they_should() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    fs::write(folder.join("alerts.yaml"), text("chart/files/alerts.yaml")).unwrap();
    // JSON is YAML.
    fs::write(
        folder.join("test.yaml"),
        tests_with_annotations().to_string(),
    )
    .unwrap();
    for arguments in [
        ["check", "rules", "alerts.yaml"],
        ["test", "rules", "test.yaml"],
    ] {
        let (success, text) = promtool(folder, &arguments);
        assert!(success, "{text}");
    }
}

/// The cases, each with the annotations that the rule gives in the same words whatever it found.
fn tests_with_annotations() -> Value {
    let alerts = alerts();
    let mut tests = tests();
    for test in tests["tests"].as_array_mut().unwrap() {
        for case in test["alert_rule_test"].as_array_mut().unwrap() {
            let alert = &alerts[case["alertname"].as_str().unwrap()];
            let Some(expected) = case["exp_alerts"].as_array_mut() else {
                continue;
            };
            for alert_expected in expected {
                let annotations = alert_expected["exp_annotations"].as_object_mut().unwrap();
                add_missing(annotations, alert["annotations"].as_object().unwrap());
            }
        }
    }
    tests
}

fn add_missing(expected: &mut Map<String, Value>, annotations: &Map<String, Value>) {
    for (name, text) in annotations {
        expected.entry(name).or_insert_with(|| text.clone());
    }
}

/// What promtool answers, run in the folder.
fn promtool(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let mut promtool = Command::new(program("promtool"));
    let output = promtool
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// A program of Debian's package `prometheus`, which `cargo xtask setup` unpacks.
pub(super) fn program(name: &str) -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/bin");
    let unpacked = tools.join(name);
    if unpacked.exists() {
        unpacked
    } else {
        name.into()
    }
}
