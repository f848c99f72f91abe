//! All metrics of one status: their values, and the files that name them.

use super::pages::{agrees, repository, table_under};
use epguard::daemon::report::metrics::{Format, Process, render};
use epguard::kernel::maps::Counters;
use epguard::shared::status::{
    ApiFigures, Attachment, Cause, Distribution, Evicted, Figures, Fill, Gap, Partial, SocketLb,
    Status, StoppedDenials, Translators, Watch,
};
use epguard_common::{Count, Mode, Outcome, Reason};
use epguard_core::facts::Watched;
use epguard_core::state::{IpState, PodState, UnprovenDeaths};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The samples that are not 0.
const EXPECTED: &str = r#"
epguard_build_info{version="0.1.0",revision="unknown"} 1
epguard_denied_packets_total{reason="reused",action="drop",mode="enforce"} 7
epguard_denied_packets_total{reason="reused",action="pass",mode="observe"} 2
epguard_denied_bytes_total{reason="reused",action="drop",mode="enforce"} 700
epguard_denied_bytes_total{reason="reused",action="pass",mode="observe"} 200
epguard_denied_openings_total{reason="reused",action="drop",mode="enforce"} 3
epguard_denied_openings_total{reason="reused",action="pass",mode="observe"} 1
epguard_passed_packets_total{reason="none",outcome="no-intent"} 9
epguard_passed_bytes_total{reason="none",outcome="no-intent"} 900
epguard_events_lost_total 2
epguard_events_suppressed_total 5
epguard_answers_suppressed_total 6
epguard_answers_failed_total 1
epguard_redirects_failed_total 4
epguard_stale_services 4
epguard_events_skipped_total 7
epguard_uncounted_denials 8
epguard_wrong_denies_total{reason="reused"} 1
epguard_reason_demoted{reason="reused"} 1
epguard_breaker_stopped_services 1
epguard_breaker_stopped_endpoints 3
epguard_intent_gaps{cause="ipvs"} 1
epguard_socket_lb_gap 1
epguard_unproven_nodes 3
epguard_unread_objects 11
epguard_refused_denials 4
epguard_records_evicted_total{table="drops"} 6
epguard_mode{mode="enforce"} 1
epguard_mode_policy_problem 1
epguard_synced 1
epguard_sync_duration_seconds 0.82
epguard_view_age_seconds 2.0
epguard_lease_remaining_seconds 14.25
epguard_lease_lost_total 2
epguard_watch_up{watch="pods"} 1
epguard_watch_age_seconds{watch="pods"} 1.5
epguard_watch_restarts_total{watch="pods"} 3
epguard_watch_restarts_total{watch="nodes"} 3
epguard_watch_skipped_total{watch="pods"} 1
epguard_watch_skipped_total{watch="nodes"} 1
epguard_api_requests_total 42
epguard_api_throttled_seconds_total 1.25
epguard_pods{state="live"} 30
epguard_pods{state="dead"} 1
epguard_ips{state="owned"} 29
epguard_ips{state="denied"} 2
epguard_map_entries{map="DENIED"} 2
epguard_map_capacity{map="DENIED"} 65536
epguard_interfaces{attached="yes"} 2
epguard_interfaces{attached="no"} 1
epguard_propagation_seconds_sum 2.6
epguard_propagation_seconds_count 3
epguard_propagation_seconds_bucket{le="0.001"} 1
epguard_propagation_seconds_bucket{le="0.5"} 1
epguard_propagation_seconds_bucket{le="1.0"} 2
epguard_propagation_seconds_bucket{le="+Inf"} 3
process_cpu_seconds_total 1.5
process_resident_memory_bytes 62000000
process_virtual_memory_bytes 900000000
process_open_fds 80
process_max_fds 1024
process_start_time_seconds 1700000000.25
"#;

/// Labels that Prometheus adds.
const ADDED: [&str; 6] = ["cluster", "instance", "job", "le", "node", "pod"];

/// The headings of docs/metrics.md.
const HEADINGS: [&str; 7] = [
    "The agent",
    "Packets",
    "Trust",
    "View",
    "API server",
    "Sizes",
    "Durations",
];

fn status() -> Status {
    let attachment = |attached| Attachment {
        attached,
        ..Attachment::default()
    };
    let watch = |up, age_ms| Watch {
        up,
        age_ms,
        restarts: 3,
        skipped: 1,
        ..Watch::default()
    };
    Status {
        version: "0.1.0".to_owned(),
        mode_policy: Some("the agent may not read it".to_owned()),
        socket_lb: SocketLb {
            programs: vec!["cil_sock4_conne (id 7)".to_owned()],
            problem: Some("it runs alone".to_owned()),
            ..SocketLb::default()
        },
        unproven: vec![UnprovenDeaths {
            nodes: ["a", "b", "c"].map(str::to_owned).to_vec(),
            ..UnprovenDeaths::default()
        }],
        left_out: [("shop".to_owned(), 4), ("payments".to_owned(), 5)].into(),
        partial: Partial {
            count: 2,
            ..Partial::default()
        },
        synced: true,
        mode: Some(Mode::Enforce),
        watches: [
            (Watched::Nodes, watch(false, None)),
            (Watched::Pods, watch(true, Some(1_500))),
        ]
        .into(),
        lease_ms: 14_250,
        view_age_ms: Some(2_000),
        interfaces: vec![attachment(true), attachment(true), attachment(false)],
        translators: Translators {
            gaps: vec![Gap {
                cause: Cause::Ipvs,
                detail: String::new(),
            }],
            ..Translators::default()
        },
        refused: 4,
        breaker: vec![StoppedDenials {
            stopped: 3,
            ..StoppedDenials::default()
        }],
        wrong_denies: [(Reason::Reused, 1)].into(),
        demoted: vec![Reason::Reused],
        figures: Figures {
            stale_services: 4,
            synced_after_ms: Some(820),
            pods: [(PodState::Dead, 1), (PodState::Live, 30)].into(),
            ips: [(IpState::Denied, 2), (IpState::Owned, 29)].into(),
            maps: [(
                "DENIED".into(),
                Fill {
                    entries: 2,
                    capacity: 65_536,
                },
            )]
            .into(),
            evicted: Evicted {
                drops: 6,
                review: 0,
            },
            api: ApiFigures {
                requests: 42,
                throttled_us: 1_250_000,
            },
            propagation: Distribution {
                sum_us: 2_600_000,
                count: 3,
                buckets: vec![(1_000, 1), (500_000, 0), (1_000_000, 1)],
            },
            events_skipped: 7,
            uncounted: 8,
            leases_lost: 2,
            ..Figures::default()
        },
        ..Status::default()
    }
}

fn counters() -> Counters {
    let count = |packets| Count {
        packets,
        bytes: packets * 100,
        openings: packets / 2,
    };
    Counters::from([
        ((Reason::Reused, Outcome::Dropped), count(7)),
        ((Reason::Reused, Outcome::Observed), count(2)),
        ((Reason::Reused, Outcome::EventSuppressed), count(5)),
        ((Reason::Reused, Outcome::AnswerSuppressed), count(6)),
        ((Reason::Terminated, Outcome::AnswerFailed), count(1)),
        ((Reason::Nothing, Outcome::RedirectFailed), count(4)),
        ((Reason::DeadBackend, Outcome::EventLost), count(1)),
        ((Reason::Nothing, Outcome::EventLost), count(1)),
        ((Reason::Nothing, Outcome::NoIntent), count(9)),
        ((Reason::Nothing, Outcome::Draining), count(0)),
    ])
}

fn process() -> Process {
    Process {
        cpu: Duration::from_millis(1_500),
        resident_bytes: 62_000_000,
        virtual_bytes: 900_000_000,
        open_fds: 80,
        max_fds: 1024,
        start_time: 1_700_000_000.25,
    }
}

fn text() -> String {
    render(&status(), counters(), Some(process())).unwrap()
}

struct Metric {
    help: String,
    labels: Vec<String>,
}

/// Each metric by the name that it is served with, of a histogram without `_bucket`.
fn served() -> BTreeMap<String, Metric> {
    let mut found = BTreeMap::new();
    for family in text().split("# HELP ").skip(1) {
        let (head, rest) = family.split_once('\n').unwrap();
        let (name, help) = head.split_once(' ').unwrap();
        let suffix = if rest.contains(" counter\n") {
            "_total"
        } else {
            ""
        };
        let sample = rest.lines().find(|line| !line.starts_with('#')).unwrap();
        let labels = sample
            .split_once('{')
            .map_or("", |(_, labels)| labels)
            .split("=\"");
        let labels = labels.filter_map(|text| {
            text.rsplit(['"', ','])
                .next()
                .filter(|name| !name.starts_with('}'))
        });
        let labels = labels
            .filter(|label| !label.is_empty())
            .map(str::to_owned)
            .collect();
        found.insert(
            format!("{name}{suffix}"),
            Metric {
                help: help.to_owned(),
                labels,
            },
        );
    }
    found
}

/// Every metric that a file names, with the names of the labels behind it.
fn named(file: &str) -> BTreeSet<(String, Vec<String>)> {
    let text = repository(file);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = BTreeSet::new();
    let prefixes = ["epguard_", "process_"];
    for (at, _) in prefixes
        .iter()
        .flat_map(|prefix| text.match_indices(prefix))
    {
        let rest = &text[at..];
        let (name, behind) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        let selector = behind
            .strip_prefix('{')
            .and_then(|behind| behind.split_once('}'));
        let matchers = selector.map_or("", |(matchers, _)| matchers).split(',');
        let labels = matchers.filter_map(|matcher| Some(matcher.split_once('=')?.0.to_owned()));
        found.insert((
            name.trim_end_matches("_bucket").to_owned(),
            labels.collect(),
        ));
    }
    assert!(!found.is_empty(), "{file}");
    found
}

#[test]
fn each_value_is_read_from_its_place_and_the_rest_is_0() {
    let text = text();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let nonzero: Vec<&str> = samples
        .filter(|line| !line.ends_with(" 0") && !line.ends_with(" 0.0"))
        .collect();
    assert_eq!(nonzero.join("\n"), EXPECTED.trim());
    for line in [
        "epguard_denied_packets_total{reason=\"terminated\",action=\"pass\",mode=\"observe\"} 0",
        "# TYPE epguard_propagation_seconds histogram",
        "# UNIT epguard_propagation_seconds seconds",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line}");
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn an_agent_that_has_just_started_leaves_out_unknown_values() {
    let text = render(&Status::default(), Counters::new(), None).unwrap();
    for absent in [
        "view_age",
        "sync_duration",
        "watch_up",
        "passed_packets",
        "process_",
    ] {
        assert!(!text.contains(absent), "{absent}");
    }
    assert!(text.contains("epguard_synced 0\n"), "{text}");
}

#[test]
fn the_page_has_a_row_for_each_metric_with_its_labels_and_its_help_and_no_other() {
    let mut served = served();
    for heading in HEADINGS {
        for row in table_under("docs/metrics.md", heading, "metric") {
            let name = row[0].trim_matches('`');
            let metric = served
                .remove(name)
                .unwrap_or_else(|| panic!("no metric {name}"));
            let labels: Vec<String> = metric
                .labels
                .iter()
                .map(|label| format!("`{label}`"))
                .collect();
            let expected = [row[0].clone(), labels.join(", "), metric.help];
            assert!(agrees(&row, &expected), "{row:?} instead of {expected:?}");
        }
    }
    assert!(served.is_empty(), "the page lacks {:?}", served.keys());
}

#[test]
fn pages_alerts_their_test_and_the_dashboard_name_metrics_and_labels_of_the_table() {
    let served = served();
    let pages = [
        "actions",
        "install",
        "metrics",
        "reference",
        "threats",
        "troubleshooting",
        "verdicts",
    ];
    let pages = pages.map(|page| format!("docs/{page}.md"));
    let monitoring = [
        "deploy/chart/files/alerts.yaml",
        "deploy/chart/files/dashboard.json",
        "xtask/tests/repository/manifests/alerts_test.yaml",
    ];
    for file in pages.into_iter().chain(monitoring.map(str::to_owned)) {
        for (name, labels) in named(&file) {
            let metric = served
                .get(&name)
                .unwrap_or_else(|| panic!("{file}: no metric {name}"));
            for label in labels {
                let is_known = ADDED.contains(&&*label) || metric.labels.contains(&label);
                assert!(is_known, "{file}: {name} has no label {label}");
            }
        }
    }
}

#[test]
fn every_sample_of_the_plain_text_belongs_to_the_help_and_type_above_it() {
    let plain = Format::Plain.write(text());
    let mut family = String::new();
    let mut heads = 0;
    for line in plain.lines() {
        if let Some(head) = line.strip_prefix("# HELP ") {
            family = head.split_once(' ').unwrap().0.to_owned();
            heads += 1;
        } else if let Some(head) = line.strip_prefix("# TYPE ") {
            assert_eq!(head.split_once(' ').unwrap().0, family);
        } else {
            let name = line.split(['{', ' ']).next().unwrap();
            let suffix = name.strip_prefix(&*family);
            let suffixes = ["", "_bucket", "_sum", "_count"];
            assert!(
                suffix.is_some_and(|suffix| suffixes.contains(&suffix)),
                "{family}: {line}"
            );
        }
    }
    assert_eq!(heads, served().len());
}

#[test]
#[ignore = "needs promtool: cargo xtask setup installs it"]
fn promtool_has_nothing_to_say_about_the_metrics() {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/bin/promtool");
    let tool = if tool.exists() {
        tool
    } else {
        "promtool".into()
    };
    let mut promtool = Command::new(tool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let plain = Format::Plain.write(text());
    let mut input = promtool.stdin.take().unwrap();
    input.write_all(plain.as_bytes()).unwrap();
    drop(input);
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert_eq!(String::from_utf8_lossy(&said), "");
}
