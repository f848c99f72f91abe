//! The panels of the dashboard, asked of a Prometheus with the metrics of 500 nodes, as the agents
//! would have served them. Some nodes have a fault, and the numbers of the panels show it.

use super::missing;
use super::prometheus::{Prometheus, Range, command, target};
use epguard::daemon::report::metrics::{Process, render};
use epguard::kernel::maps::Counters;
use epguard::shared::status::{
    ApiFigures, Attachment, Cause, Distribution, Evicted, Figures, Fill, Gap, Status,
    StoppedDenials, Translators, Watch,
};
use epguard_common::{Count, Mode, Outcome, Reason};
use epguard_core::facts::Watched;
use epguard_core::state::{IpState, PodState};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

const NODES: usize = 500;
/// Minutes of metrics, of which each has one scrape.
const MINUTES: usize = 30;
/// Nodes below this one are canaries, which enforce from a minute on.
const CANARIES: usize = 40;
const SINCE: usize = 12;
/// Nodes below this one have the newer version.
const UPGRADED: usize = 12;

/// Its agent has not answered for eight minutes.
const DOWN: usize = 7;
const NOT_SYNCED: usize = 13;
const WITHOUT_HOOKS: usize = 21;
const WITHOUT_LEASE: usize = 33;
const WRONG: usize = 50;
const GAP: usize = 58;
/// Its EndpointSlices list dead pods.
const STALE: [usize; 12] = [2, 5, 11, 17, 19, 28, 35, 71, 144, 233, 377, 402];

#[test]
#[ignore = "needs Prometheus: cargo xtask setup installs it"]
fn the_dashboard_of_500_nodes_shows_how_many_have_a_fault() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let end = jiff::Timestamp::now().as_second();
    fs::write(folder.join("metrics.txt"), exposition(end)).unwrap();
    let mut promtool = command("promtool", None);
    promtool.args([
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        "metrics.txt",
        "prometheus",
    ]);
    let output = promtool.current_dir(folder).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let prometheus = Prometheus::start(folder, "", free_address(), None);
    prometheus.wait();
    let panels = prometheus.panels(Range {
        end,
        seconds: 60 * (MINUTES as u64 - 5),
        step: 60,
        window: "5m",
    });
    fs::write(
        target().join("dashboard-500.json"),
        json!(panels).to_string(),
    )
    .unwrap();
    assert_eq!(missing(&panels, &[]), [] as [&str; 0]);
    let shown = json!({
        "Nodes": numbers(&panels, "Nodes"),
        "Modes": numbers(&panels, "Modes"),
        "Wrong denials": numbers(&panels, "Wrong denials"),
        "Demoted": numbers(&panels, "Demoted"),
        "Stale Services": numbers(&panels, "Stale Services"),
        "Without lease": numbers(&panels, "Without lease"),
        "Versions": numbers(&panels, "Versions"),
    });
    let expected = json!({
        // Of the canaries, four have a fault; beside them, one observes a Service, one has a gap.
        "Nodes": {"all": "500", "protected": "36", "degraded": "6"},
        "Modes": {"enforce": "39", "observe": "460", "off": "0"},
        "Wrong denials": {"": "1"},
        "Demoted": {"reasons": "0", "Services": "1"},
        "Stale Services": {"": "24"},
        "Without lease": {"": "1"},
        "Versions": {"0.1.0": "488", "0.2.0": "11"},
    });
    assert_eq!(shown, expected);
    let rows = panel(&panels, "Each node")["data"][0].as_array().unwrap();
    let broken: Vec<&Value> = rows
        .iter()
        .filter(|row| newest(row) == "1")
        .map(|row| &row["metric"]["node"])
        .collect();
    let faults = [DOWN, NOT_SYNCED, WITHOUT_HOOKS, WITHOUT_LEASE, WRONG, GAP];
    let mut nodes = faults.map(name);
    nodes.sort();
    assert_eq!(json!(broken), json!(nodes));
}

/// The newest values of a panel of numbers, by their names.
fn numbers(panels: &[Value], title: &str) -> Value {
    let panel = panel(panels, title);
    let mut numbers = serde_json::Map::new();
    for (query, data) in panel["targets"]
        .as_array()
        .unwrap()
        .iter()
        .zip(panel["data"].as_array().unwrap())
    {
        let legend = query["legendFormat"].as_str().unwrap();
        for series in data.as_array().unwrap() {
            let label = legend.trim_matches(['{', '}']);
            let name = series["metric"][label].as_str().unwrap_or(legend);
            numbers.insert(name.to_owned(), json!(newest(series)));
        }
    }
    numbers.into()
}

fn panel<'a>(panels: &'a [Value], title: &str) -> &'a Value {
    panels
        .iter()
        .find(|panel| panel["title"] == title && panel["type"] != "row")
        .unwrap()
}

fn newest(series: &Value) -> &str {
    series["values"].as_array().unwrap().last().unwrap()[1]
        .as_str()
        .unwrap()
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

fn name(number: usize) -> String {
    format!("worker-{number}")
}

/// All samples up to a second since 1970 with their times, as promtool reads them.
fn exposition(end: i64) -> String {
    let mut out = String::new();
    for minute in 0..=MINUTES {
        let at = end - 60 * i64::try_from(MINUTES - minute).unwrap();
        for number in 0..NODES {
            let labels = format!(
                "job=\"epguard\",instance=\"10.0.{}.{}:9467\",node=\"{}\"",
                number / 250,
                number % 250,
                name(number)
            );
            let is_down = number == DOWN && minute > MINUTES - 8;
            writeln!(out, "up{{{labels}}} {} {at}", u8::from(!is_down)).unwrap();
            if is_down {
                continue;
            }
            let text = render(
                &status(number, minute),
                counters(number, minute),
                Some(process(number, minute, at)),
            )
            .unwrap();
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                append(&mut out, line, &labels, at);
            }
        }
    }
    out + "# EOF\n"
}

/// Appends a sample with further labels, and its time.
fn append(out: &mut String, line: &str, labels: &str, at: i64) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let labelled = match series.strip_suffix('}') {
        Some(series) => format!("{series},{labels}}}"),
        None => format!("{series}{{{labels}}}"),
    };
    writeln!(out, "{labelled} {value} {at}").unwrap();
}

fn status(number: usize, minute: usize) -> Status {
    let is_stale = STALE.contains(&number);
    let denies = is_stale || [WITHOUT_LEASE, WRONG].contains(&number);
    let jitter = (number * 7 + minute * 13) % 11;
    let enforces = number < CANARIES && minute >= SINCE;
    let mut interfaces = vec![attachment(true); 8 + number % 30];
    let mut translators = Translators::default();
    let mut breaker = Vec::new();
    if number == WITHOUT_HOOKS {
        interfaces.extend([attachment(false), attachment(false)]);
    }
    if number == GAP {
        translators.gaps.push(Gap {
            cause: Cause::Ipvs,
            detail: String::new(),
        });
    }
    if number == STALE[3] && minute.is_multiple_of(9) {
        breaker.push(StoppedDenials {
            stopped: 3,
            ..StoppedDenials::default()
        });
    }
    let is_wrong = number == WRONG && minute > 20;
    Status {
        version: if number < UPGRADED { "0.2.0" } else { "0.1.0" }.to_owned(),
        synced: number != NOT_SYNCED,
        mode: Some(if enforces {
            Mode::Enforce
        } else {
            Mode::Observe
        }),
        watches: watches(number, minute),
        lease_ms: if number == WITHOUT_LEASE && minute > 22 {
            -1
        } else {
            i64::try_from(9_000 + jitter * 500).unwrap()
        },
        view_age_ms: Some(view_age_ms(number, minute)),
        interfaces,
        translators,
        breaker,
        wrong_denies: if is_wrong {
            [(Reason::Reused, 1)].into()
        } else {
            [].into()
        },
        demoted_services: vec!["shop/web".to_owned(); usize::from(is_wrong)],
        figures: figures(number, minute, denies),
        ..Status::default()
    }
}

fn attachment(attached: bool) -> Attachment {
    Attachment {
        attached,
        ..Attachment::default()
    }
}

fn view_age_ms(number: usize, minute: usize) -> u64 {
    let age = 1_000 + (number * 31 + minute * 17) % 6_000;
    let stuck = if number == WITHOUT_LEASE && minute > 20 {
        (minute - 20) * 60_000
    } else {
        0
    };
    (age + stuck) as u64
}

fn watches(number: usize, minute: usize) -> BTreeMap<Watched, Watch> {
    let watch = Watch {
        up: number != NOT_SYNCED,
        age_ms: Some(view_age_ms(number, minute)),
        restarts: ((number + minute) / 40) as u64,
        ..Watch::default()
    };
    Watched::ALWAYS
        .into_iter()
        .map(|watched| (watched, watch.clone()))
        .collect()
}

fn figures(number: usize, minute: usize, denies: bool) -> Figures {
    let steps = (minute * (3 + number % 5)) as u64;
    let ips = if denies { 1 + number % 4 } else { 0 };
    Figures {
        stale_services: if STALE.contains(&number) { 2 } else { 0 },
        synced_after_ms: Some(900),
        pods: [
            (PodState::Live, 9_800 + steps % 90),
            (PodState::Draining, steps % 5),
            (PodState::Retired, steps % 3),
            (PodState::Dead, ips as u64),
        ]
        .into(),
        ips: [
            (IpState::Owned, 9_700 + steps % 80),
            (IpState::Draining, steps % 5),
            (IpState::Conflict, 0),
            (IpState::Denied, ips as u64),
            (IpState::Terminated, ips as u64 / 2),
        ]
        .into(),
        maps: [
            fill("DENIED", ips * 9, 65_536),
            fill("OWNERS", 9_800, 262_144),
            fill("SERVICES", ips, 32_768),
            fill("SUSPECTS", ips + minute * 20, 16_384),
        ]
        .into(),
        api: ApiFigures {
            requests: 20 + steps,
            throttled_us: steps * 1_000,
        },
        evicted: Evicted::default(),
        propagation: durations(1_000, steps * 40),
        slice_propagation: durations(250_000, steps * 10),
        reuse_gap: durations(5_000_000, steps * 4),
        leases_lost: u64::from(number == WITHOUT_LEASE && minute > 22),
        ..Figures::default()
    }
}

fn fill(name: &str, entries: usize, capacity: usize) -> (String, Fill) {
    (name.to_owned(), Fill { entries, capacity })
}

/// So many durations, half of them longer than the median of this many microseconds.
fn durations(median: u64, count: u64) -> Distribution {
    Distribution {
        sum_us: median * count,
        count,
        buckets: vec![
            (median / 2, count / 4),
            (median, count / 4),
            (median * 4, count / 2),
        ],
    }
}

fn count(packets: usize) -> Count {
    Count {
        packets: packets as u64,
        bytes: packets as u64 * 74,
        openings: packets as u64,
    }
}

fn counters(number: usize, minute: usize) -> Counters {
    let Some(place) = STALE.iter().position(|stale| *stale == number) else {
        return Counters::new();
    };
    let rate = 60 * (place + 1);
    let mut counters = Counters::from([
        (
            (Reason::Nothing, Outcome::NoIntent),
            count(minute * rate / 3),
        ),
        ((Reason::Nothing, Outcome::NotDenied), count(minute * rate)),
    ]);
    if number < CANARIES {
        let enforced = minute.saturating_sub(SINCE);
        let observed = minute.min(SINCE);
        counters.insert((Reason::Reused, Outcome::Dropped), count(enforced * rate));
        counters.insert(
            (Reason::DeadBackend, Outcome::Rejected),
            count(enforced * rate * 2),
        );
        counters.insert((Reason::Reused, Outcome::Observed), count(observed * rate));
        counters.insert(
            (Reason::Nothing, Outcome::EventSuppressed),
            count(enforced * 2),
        );
    } else {
        counters.insert(
            (Reason::DeadBackend, Outcome::Observed),
            count(minute * rate),
        );
        counters.insert(
            (Reason::Terminated, Outcome::Observed),
            count(minute * rate / 5),
        );
    }
    counters
}

fn process(number: usize, minute: usize, at: i64) -> Process {
    // A canary was restarted when its version changed.
    let restarted = if number < UPGRADED && minute >= 8 {
        8
    } else {
        0
    };
    let age = 60 * i64::try_from(minute - restarted).unwrap();
    let began = Duration::from_secs(u64::try_from(at - age).unwrap());
    Process {
        cpu: Duration::from_millis((minute * (120 + number % 300)) as u64),
        resident_bytes: (58 << 20) + (number as u64 % 40) * (1 << 19),
        virtual_bytes: 900 << 20,
        open_fds: 90,
        max_fds: 1_048_576,
        start_time: began.as_secs_f64(),
    }
}
