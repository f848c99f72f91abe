//! All rows of one size, in the order in which they are measured.

use super::cgroup::Cgroup;
use super::cluster::{Cluster, Started};
use super::effort::Effort;
use super::events::{deaths, die, finish, join, restart, roll};
use super::requests::Cost;
use super::rolling;
use super::rows::Rows;
use super::rows::Unit::{Kilobytes, Megabytes, Milliseconds, Requests, Seconds, Share};
use super::size::Size;
use super::waits::Waits;
use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The budgets that depend on the size, in MB: resident in steady state, and at most.
fn resident(size: Size) -> [f64; 2] {
    if size.pods > 10_000 { [100.0, 180.0] } else { [30.0, 180.0] }
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
    let name = "longest wait of the lease, netlink or /healthz";
    rows.limit(Milliseconds, name, [longest], 10.0);
    eprintln!("{}: the API server restarts", size.name);
    restart(&mut rows, &cluster);
    memory(&mut rows, &cluster);
    (rows, notes)
}

fn start(rows: &mut Rows, started: &Started) {
    rows.limit(Seconds, "synced after", [started.synced.as_secs_f64()], 5.0);
    rows.show(Seconds, "processor time until synced", [started.processor]);
    rows.show(Requests, "until synced", [started.cost.requests]);
    rows.show(Kilobytes, "until synced", [started.cost.octets / 1e3]);
    let name = "until synced, of these slices and Services";
    rows.show(Kilobytes, name, [started.shown.octets / 1e3]);
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
    rows.show(Requests, "a minute, without denials", [cost.requests / minutes]);
    let [steady, _] = resident(cluster.size);
    let resident = cluster.agent.memory("VmRSS").unwrap();
    rows.limit(Megabytes, "resident, steady", [resident / 1e6], steady);
    let octets = cluster.cgroup.as_ref().and_then(Cgroup::now);
    in_cgroup(rows, "cgroup, steady, with maps", octets);
}

fn busy(rows: &mut Rows, cluster: &Cluster, effort: &Effort) {
    let changes = cluster.change(100);
    sleep(Duration::from_secs(2));
    let (processor, before, begun) = (cluster.agent.processor(), cluster.cost(&[]), Instant::now());
    sleep(effort.period);
    let (processor, cost) = (cluster.agent.processor() - processor, cluster.cost(&[]) - before);
    let seconds = begun.elapsed().as_secs_f64();
    let per_second = changes.stop();
    let share = processor / seconds * 100.0 * (100.0 / per_second);
    rows.limit(Share, "at 100 pod changes a second", [share], 2.0);
    let name = "a second, at 100 pod changes a second";
    rows.show(Kilobytes, name, [cost.octets / 1e3 / seconds]);
}

/// The longest wait while pods of these Services die and others change 1,000 times a second, and during a rolling update. Delays
/// are measured without the probes, which take an agent some tenths of each millisecond.
fn while_busy(cluster: &mut Cluster, services: Range<u32>, effort: &Effort) -> f64 {
    let waits = Waits::start(&cluster.world.netns);
    let changes = cluster.change(1_000);
    die(cluster, services);
    changes.stop();
    rolling::replace(cluster, 0..effort.watched);
    waits.longest()
}

fn with_denials(rows: &mut Rows, cluster: &Cluster, effort: &Effort) {
    let (cost, minutes) = cost_of_a_period(cluster, effort);
    let name = "a minute, with denials";
    rows.limit(Requests, name, [cost.requests / minutes], 12.0);
    rows.show(Kilobytes, name, [cost.octets / 1e3 / minutes]);
}

fn memory(rows: &mut Rows, cluster: &Cluster) {
    let [_, most] = resident(cluster.size);
    let peak = cluster.agent.memory("VmHWM").unwrap();
    rows.limit(Megabytes, "resident, peak of all rows", [peak / 1e6], most);
    let octets = cluster.cgroup.as_ref().and_then(Cgroup::most);
    in_cgroup(rows, "cgroup, peak of all rows, with maps", octets);
}

/// The octets that the agent's cgroup counts, if it has one.
fn in_cgroup(rows: &mut Rows, name: &str, octets: Option<f64>) {
    match octets {
        Some(octets) => rows.show(Megabytes, name, [octets / 1e6]),
        None => rows.missing(Megabytes, name, "no memory cgroup here"),
    }
}
