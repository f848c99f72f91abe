//! All rows of one size, in the order in which they are measured.

use super::cgroup::Cgroup;
use super::changes::Changes;
use super::cluster::{Cluster, Started};
use super::effort::Effort;
use super::events::{deaths, die, finish, join, restart, roll};
use super::requests::Cost;
use super::rolling;
use super::rows::{Rows, Unit};
use super::size::Size;
use super::waits::Waits;
use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The budgets that depend on the size, in MB: resident in steady state, and at most.
fn resident(size: Size) -> [f64; 2] {
    if size.pods > 10_000 {
        [100.0, 180.0]
    } else {
        [30.0, 180.0]
    }
}

pub(crate) fn measure(size: Size, effort: &Effort) -> (Rows, Vec<String>) {
    let mut rows = Rows::new(size.name);
    let mut notes = Vec::new();
    eprintln!("{}: making the cluster", size.name);
    let (mut cluster, started) = Cluster::start(size);
    start(&mut rows, &started);
    eprintln!("{}: at rest", size.name);
    at_rest(&mut rows, &cluster, effort);
    eprintln!("{}: 100 changes a second", size.name);
    busy(&mut rows, &cluster, effort);
    let waits = Waits::start(&cluster.world.netns);
    eprintln!("{}: nodes join", size.name);
    let mut longest = vec![join(&mut rows, &cluster, &waits, effort)];
    eprintln!("{}: Jobs finish", size.name);
    notes.push(finish(&mut rows, &mut cluster));
    longest.push(waits.longest());
    eprintln!("{}: with denials", size.name);
    with_denials(&mut rows, &cluster, effort);
    longest.push(waits.longest());
    drop(waits);
    eprintln!("{}: pods die", size.name);
    let alive = deaths(&mut rows, &mut cluster, effort);
    eprintln!("{}: rolling update", size.name);
    longest.push(while_busy(&mut cluster, alive..alive + effort.deaths, effort));
    roll(&mut rows, &cluster, effort);
    let longest = longest.into_iter().fold(0.0, f64::max);
    rows.limit(
        Unit::Milliseconds,
        "longest wait of the lease, netlink or /healthz",
        vec![longest],
        10.0,
    );
    eprintln!("{}: the API server restarts", size.name);
    restart(&mut rows, &cluster);
    memory(&mut rows, &cluster);
    (rows, notes)
}

fn start(rows: &mut Rows, started: &Started) {
    rows.limit(
        Unit::Seconds,
        "synced after",
        vec![started.synced.as_secs_f64()],
        5.0,
    );
    rows.show(
        Unit::Seconds,
        "processor time until synced",
        vec![started.processor],
    );
    rows.show(Unit::Requests, "until synced", vec![started.cost.requests]);
    rows.show(Unit::Kilobytes, "until synced", vec![started.cost.octets / 1e3]);
    rows.show(
        Unit::Kilobytes,
        "until synced, of these slices and Services",
        vec![started.shown.octets / 1e3],
    );
}

/// What the agent costs the API server meanwhile, and how many minutes the period has.
fn cost_of_a_period(cluster: &Cluster, effort: &Effort) -> (Cost, f64) {
    let before = cluster.cost(&[]);
    sleep(effort.period);
    let cost = cluster.cost(&[]) - before;
    (cost, effort.period.as_secs_f64() / 60.0)
}

fn at_rest(rows: &mut Rows, cluster: &Cluster, effort: &Effort) {
    sleep(Duration::from_secs(5));
    let (cost, minutes) = cost_of_a_period(cluster, effort);
    rows.show(
        Unit::Requests,
        "a minute, without denials",
        vec![cost.requests / minutes],
    );
    let [steady, _] = resident(cluster.size);
    let resident = cluster.agent.memory("VmRSS").unwrap();
    rows.limit(Unit::Megabytes, "resident, steady", vec![resident / 1e6], steady);
    in_cgroup(
        rows,
        "cgroup, steady, with maps",
        cluster.cgroup.as_ref().and_then(Cgroup::now),
    );
}

fn busy(rows: &mut Rows, cluster: &Cluster, effort: &Effort) {
    let changes = Changes::start(cluster, 100);
    sleep(Duration::from_secs(2));
    let (processor, before, begun) = (cluster.agent.processor(), cluster.cost(&[]), Instant::now());
    sleep(effort.period);
    let (processor, cost) = (cluster.agent.processor() - processor, cluster.cost(&[]) - before);
    let seconds = begun.elapsed().as_secs_f64();
    let per_second = changes.stop();
    let share = processor / seconds * 100.0 * (100.0 / per_second);
    rows.limit(Unit::Share, "at 100 pod changes a second", vec![share], 2.0);
    rows.show(
        Unit::Kilobytes,
        "a second, at 100 pod changes a second",
        vec![cost.octets / 1e3 / seconds],
    );
}

/// The longest wait while pods of these Services die and others change 1,000 times a second, and during a rolling update. Delays
/// are measured without the probes, which take an agent some tenths of each millisecond.
fn while_busy(cluster: &mut Cluster, services: Range<u32>, effort: &Effort) -> f64 {
    let waits = Waits::start(&cluster.world.netns);
    let changes = Changes::start(cluster, 1_000);
    die(cluster, services);
    changes.stop();
    rolling::replace(cluster, 0..effort.watched);
    waits.longest()
}

fn with_denials(rows: &mut Rows, cluster: &Cluster, effort: &Effort) {
    let (cost, minutes) = cost_of_a_period(cluster, effort);
    rows.limit(
        Unit::Requests,
        "a minute, with denials",
        vec![cost.requests / minutes],
        12.0,
    );
    rows.show(
        Unit::Kilobytes,
        "a minute, with denials",
        vec![cost.octets / 1e3 / minutes],
    );
}

fn memory(rows: &mut Rows, cluster: &Cluster) {
    let [_, most] = resident(cluster.size);
    let peak = cluster.agent.memory("VmHWM").unwrap();
    rows.limit(
        Unit::Megabytes,
        "resident, peak of all rows",
        vec![peak / 1e6],
        most,
    );
    in_cgroup(
        rows,
        "cgroup, peak of all rows, with maps",
        cluster.cgroup.as_ref().and_then(Cgroup::most),
    );
}

/// The octets that the agent's cgroup counts, if it has one.
fn in_cgroup(rows: &mut Rows, name: &str, octets: Option<f64>) {
    match octets {
        Some(octets) => rows.show(Unit::Megabytes, name, vec![octets / 1e6]),
        None => rows.missing(Unit::Megabytes, name, "no memory cgroup here"),
    }
}
