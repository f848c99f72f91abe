//! Compares the table of metrics with the files that name metrics.

use super::pages::{assert_rows, repository};
use epguard::daemon::report::metrics::{METRICS, Metric};
use std::collections::{BTreeMap, BTreeSet};

/// Labels that Prometheus adds.
const ADDED: [&str; 5] = ["instance", "job", "le", "node", "pod"];

/// Each metric by the name that it is served with.
fn served() -> BTreeMap<String, &'static Metric> {
    let rows = METRICS.into_iter().flat_map(|(_, rows)| rows);
    rows.map(|metric| (metric.served(), metric)).collect()
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
    let row = |metric: &Metric| {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        vec![format!("`{}`", metric.served()), labels.join(", "), metric.help.to_owned()]
    };
    for (heading, metrics) in METRICS {
        let rows: Vec<_> = metrics.iter().map(row).collect();
        assert_rows("docs/metrics.md", heading, "metric", &rows);
    }
}

#[test]
fn pages_alerts_their_test_and_the_dashboard_name_metrics_and_labels_of_the_table() {
    let served = served();
    let pages = ["actions", "install", "metrics", "reference", "threats", "troubleshooting", "verdicts"];
    let pages = pages.map(|page| format!("docs/{page}.md"));
    let monitoring = ["prometheusrule.yaml", "prometheusrule_test.yaml", "dashboard.json"];
    let monitoring = monitoring.map(|file| format!("deploy/overlays/monitoring/{file}"));
    for file in pages.into_iter().chain(monitoring) {
        for (name, labels) in named(&file) {
            let metric = served.get(&name).unwrap_or_else(|| panic!("{file}: no metric {name}"));
            for label in labels {
                let is_known = ADDED.contains(&&*label) || metric.labels.contains(&&*label);
                assert!(is_known, "{file}: {name} has no label {label}");
            }
        }
    }
}
