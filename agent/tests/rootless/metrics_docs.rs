//! Whatever names a metric names one that there is.

use epguard::daemon::report::metrics::render;
use epguard::kernel::maps::Counters;
use epguard::shared::status::{Figures, Fill, Status, Watch};
use epguard_common::{Count, Outcome, Reason};
use std::collections::BTreeSet;
use std::path::Path;

/// Names of samples; of a histogram its own, without `_bucket`.
fn served() -> BTreeSet<String> {
    let status = Status {
        watches: [(
            "pods".into(),
            Watch {
                age_ms: Some(1),
                ..Watch::default()
            },
        )]
        .into(),
        view_age_ms: Some(1),
        figures: Figures {
            synced_after_ms: Some(1),
            pods: [("live".into(), 1)].into(),
            ips: [("owned".into(), 1)].into(),
            maps: [("DENIED".into(), Fill::default())].into(),
            evicted: [("drops".into(), 1)].into(),
            ..Figures::default()
        },
        ..Status::default()
    };
    let passed = Count::one(1, true);
    let counters = Counters::from([((Reason::Nothing, Outcome::NoIntent), passed)]);
    let text = render(&status, counters).unwrap();
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    families
        .map(|line| match line.split_once(' ').unwrap() {
            (name, "counter") => format!("{name}_total"),
            (name, _) => name.to_owned(),
        })
        .collect()
}

/// Every word of a file of the repository that looks like a metric.
fn named(file: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let metrics = words.filter(|word| word.starts_with("epguard_"));
    let names: BTreeSet<String> = metrics
        .map(|word| word.trim_end_matches("_bucket").to_owned())
        .collect();
    assert!(!names.is_empty(), "{file}");
    names
}

#[test]
fn the_documents_list_every_metric_and_no_other() {
    assert_eq!(named("docs/metrics.md"), served());
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_there_are() {
    for file in [
        "deploy/overlays/monitoring/prometheusrule.yaml",
        "deploy/overlays/monitoring/dashboard.json",
    ] {
        let unknown: Vec<String> = named(file).difference(&served()).cloned().collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
}

#[test]
fn every_metric_that_a_page_names_is_served() {
    for page in ["actions", "first-steps", "operate", "reference", "threats"] {
        let unknown: Vec<String> = named(&format!("docs/{page}.md"))
            .difference(&served())
            .cloned()
            .collect();
        assert!(unknown.is_empty(), "{page}: {unknown:?}");
    }
}
