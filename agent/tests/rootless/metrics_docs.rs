//! Compares the metrics that are served with the files that name metrics.

use super::pages::{agrees, repository, table_under};
use std::collections::{BTreeMap, BTreeSet};

/// All metrics, as the agent serves them.
const GOLDEN: &str = "agent/src/daemon/report/metrics/text/expected.txt";

/// Labels that Prometheus adds.
const ADDED: [&str; 5] = ["instance", "job", "le", "node", "pod"];

/// The headings of docs/metrics.md.
const HEADINGS: [&str; 6] = ["Packets", "Trust", "View", "API server", "Sizes", "Durations"];

struct Metric {
    help: String,
    labels: Vec<String>,
}

/// Each metric by the name that it is served with, of a histogram without `_bucket`.
fn served() -> BTreeMap<String, Metric> {
    let mut found = BTreeMap::new();
    for family in repository(GOLDEN).split("# HELP ").skip(1) {
        let (head, rest) = family.split_once('\n').unwrap();
        let (name, help) = head.split_once(' ').unwrap();
        let suffix = if rest.contains(" counter\n") { "_total" } else { "" };
        let sample = rest.lines().find(|line| !line.starts_with('#')).unwrap();
        let labels = sample.split_once('{').map_or("", |(_, labels)| labels).split("=\"");
        let labels =
            labels.filter_map(|text| text.rsplit(['"', ',']).next().filter(|name| !name.starts_with('}')));
        let labels = labels.filter(|label| !label.is_empty()).map(str::to_owned).collect();
        found.insert(format!("{name}{suffix}"), Metric { help: help.to_owned(), labels });
    }
    found
}

/// Every metric that a file names, with the names of the labels behind it.
fn named(file: &str) -> BTreeSet<(String, Vec<String>)> {
    let text = repository(file);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("epguard_") {
        let rest = &text[at..];
        let (name, behind) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        let selector = behind.strip_prefix('{').and_then(|behind| behind.split_once('}'));
        let matchers = selector.map_or("", |(matchers, _)| matchers).split(',');
        let labels = matchers.filter_map(|matcher| Some(matcher.split_once('=')?.0.to_owned()));
        found.insert((name.trim_end_matches("_bucket").to_owned(), labels.collect()));
    }
    assert!(!found.is_empty(), "{file}");
    found
}

#[test]
fn the_page_has_a_row_for_each_metric_with_its_labels_and_its_help_and_no_other() {
    let mut served = served();
    for heading in HEADINGS {
        for row in table_under("docs/metrics.md", heading, "metric") {
            let name = row[0].trim_matches('`');
            let metric = served.remove(name).unwrap_or_else(|| panic!("no metric {name}"));
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let expected = [row[0].clone(), labels.join(", "), metric.help];
            assert!(agrees(&row, &expected), "{row:?} instead of {expected:?}");
        }
    }
    assert!(served.is_empty(), "the page lacks {:?}", served.keys());
}

#[test]
fn pages_alerts_their_test_and_the_dashboard_name_metrics_and_labels_of_the_table() {
    let served = served();
    let pages = ["actions", "install", "metrics", "reference", "threats", "troubleshooting", "verdicts"];
    let pages = pages.map(|page| format!("docs/{page}.md"));
    let monitoring = [
        "deploy/chart/files/alerts.yaml",
        "deploy/chart/files/dashboard.json",
        "xtask/tests/repository/manifests/alerts_test.yaml",
    ];
    for file in pages.into_iter().chain(monitoring.map(str::to_owned)) {
        for (name, labels) in named(&file) {
            let metric = served.get(&name).unwrap_or_else(|| panic!("{file}: no metric {name}"));
            for label in labels {
                let is_known = ADDED.contains(&&*label) || metric.labels.contains(&label);
                assert!(is_known, "{file}: {name} has no label {label}");
            }
        }
    }
}
