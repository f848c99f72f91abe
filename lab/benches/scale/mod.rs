//! What an agent costs in a cluster of 10,000 and of 100,000 pods, beside its budgets.
//!
//! The real agent beside the lab's API server, which counts requests and octets. Pods are as large
//! as a recorded kubelet's. The API server runs at a low priority: on a node it would be on another
//! machine. `SCALE=10,000` takes one size alone.

mod agent;
mod background;
mod cluster;
mod events;
mod objects;
mod requests;
mod size;

use agent::Cgroup;
use background::Waits;
use cluster::{Cluster, Used};
use epguard_lab::figures::{Row, Table};
use events::{deaths, die, finish, join, replace, roll};
use nix::libc;
use size::{BIG, LARGE, SMALL, Size};
use std::env;
use std::ops::Range;
use std::thread::sleep;
use std::time::Duration;
use tokio::runtime::Builder;

/// A table for each size.
pub(crate) fn tables(quick: bool) -> Vec<Table> {
    at_low_priority();
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let _context = runtime.enter();
    let wanted = env::var("SCALE").unwrap_or_default();
    let effort = if quick { Effort::QUICK } else { Effort::FULL };
    let sizes = [SMALL, LARGE]
        .into_iter()
        .filter(|size| size.name.starts_with(&wanted));
    sizes.map(|size| measure(size, &effort)).collect()
}

/// For this process with the API server, and not for the agent.
fn at_low_priority() {
    // SAFETY: no pointers. It has no other threads yet; those inherit the priority.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
}

/// How long and how often.
struct Effort {
    /// A row that counts over a time.
    period: Duration,
    /// Pods that die, per row.
    deaths: u32,
    /// Nodes that join.
    nodes: u32,
    /// Pods of the rolling update that are replaced while waits are measured, before those whose
    /// cost is measured.
    watched: u32,
    /// Pods of the rolling update whose cost is measured.
    replaced: u32,
}

impl Effort {
    const FULL: Self = Self {
        period: Duration::from_mins(1),
        deaths: 100,
        nodes: 4,
        watched: 500,
        replaced: BIG - 500,
    };
    const QUICK: Self = Self {
        period: Duration::from_secs(5),
        deaths: 5,
        nodes: 1,
        watched: 20,
        replaced: 50,
    };
}

fn measure(size: Size, effort: &Effort) -> Table {
    let mut table = Table::new(size.name);
    let table = &mut table;
    let begin = |what: &str| eprintln!("{}: {what}", size.name);
    begin("making the cluster");
    let (mut cluster, used) = Cluster::start(size);
    start(table, &used);
    begin("at rest");
    at_rest(table, &cluster, effort);
    begin("100 changes a second");
    busy(table, &cluster, effort);
    let waits = Waits::start(&cluster.world.netns);
    begin("nodes join");
    let mut longest = vec![join(table, &cluster, &waits, effort)];
    begin("Jobs finish");
    finish(table, &mut cluster);
    longest.push(waits.longest());
    begin("with denials");
    with_denials(table, &cluster, effort);
    longest.push(waits.longest());
    drop(waits);
    begin("pods die");
    let alive = deaths(table, &mut cluster, effort);
    begin("rolling update");
    longest.push(while_busy(
        &mut cluster,
        alive..alive + effort.deaths,
        effort,
    ));
    roll(table, &cluster, effort);
    let longest = longest.into_iter().fold(0.0, f64::max);
    let name = "longest wait of the lease, netlink or /healthz";
    table
        .rows
        .push(Row::new(name, "ms", [longest]).at_most(10.0));
    memory(table, &cluster);
    table.clone()
}

fn start(table: &mut Table, used: &Used) {
    table
        .rows
        .push(Row::new("synced after", "s", [used.time]).at_most(5.0));
    table.rows.push(Row::new(
        "processor time until synced",
        "s",
        [used.processor],
    ));
    table
        .rows
        .push(Row::new("until synced", "requests", [used.requests]));
    table
        .rows
        .push(Row::new("until synced", "KB", [used.kilobytes]));
    table.rows.push(Row::new(
        "until synced, of these slices and Services",
        "KB",
        [used.shown],
    ));
}

fn at_rest(table: &mut Table, cluster: &Cluster, effort: &Effort) {
    sleep(Duration::from_secs(5));
    let used = cluster.used(|| sleep(effort.period));
    let requests = used.requests / used.time * 60.0;
    table.rows.push(Row::new(
        "a minute, without denials",
        "requests",
        [requests],
    ));
    let resident = cluster.agent.memory("VmRSS").unwrap() / 1e6;
    let budget = if cluster.size.pods > 10_000 {
        100.0
    } else {
        30.0
    };
    table
        .rows
        .push(Row::new("resident, steady", "MB", [resident]).at_most(budget));
    let in_cgroup = cluster.cgroup.as_ref().and_then(Cgroup::now);
    table.rows.push(Row::new(
        "cgroup, steady, with maps",
        "MB",
        megabytes(in_cgroup),
    ));
}

fn busy(table: &mut Table, cluster: &Cluster, effort: &Effort) {
    let changes = cluster.change(100);
    sleep(Duration::from_secs(2));
    let used = cluster.used(|| sleep(effort.period));
    let share = used.processor / used.time * 100.0 * (100.0 / changes.stop());
    let name = "processor time at 100 pod changes a second";
    table
        .rows
        .push(Row::new(name, "% of a core", [share]).at_most(2.0));
    let name = "a second, at 100 pod changes a second";
    table
        .rows
        .push(Row::new(name, "KB", [used.kilobytes / used.time]));
}

/// The longest wait while pods of these Services die and others change 1,000 times a second, and
/// during a rolling update. Delays are measured without the probes, which take an agent some tenths
/// of each millisecond.
fn while_busy(cluster: &mut Cluster, services: Range<u32>, effort: &Effort) -> f64 {
    let waits = Waits::start(&cluster.world.netns);
    let changes = cluster.change(1_000);
    die(cluster, services);
    changes.stop();
    replace(cluster, 0..effort.watched);
    waits.longest()
}

fn with_denials(table: &mut Table, cluster: &Cluster, effort: &Effort) {
    let used = cluster.used(|| sleep(effort.period));
    let name = "a minute, with denials";
    let minutes = used.time / 60.0;
    table
        .rows
        .push(Row::new(name, "requests", [used.requests / minutes]).at_most(12.0));
    table
        .rows
        .push(Row::new(name, "KB", [used.kilobytes / minutes]));
}

fn memory(table: &mut Table, cluster: &Cluster) {
    let peak = cluster.agent.memory("VmHWM").unwrap() / 1e6;
    table
        .rows
        .push(Row::new("resident, peak of all rows", "MB", [peak]).at_most(180.0));
    let in_cgroup = cluster.cgroup.as_ref().and_then(Cgroup::most);
    table.rows.push(Row::new(
        "cgroup, peak of all rows, with maps",
        "MB",
        megabytes(in_cgroup),
    ));
}

/// No sample where the kernel has no memory cgroup.
fn megabytes(octets: Option<f64>) -> Vec<f64> {
    octets.into_iter().map(|octets| octets / 1e6).collect()
}
