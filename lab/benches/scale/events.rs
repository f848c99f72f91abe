//! Rows of what happens in a cluster, and costs the agent something.

use std::net::Ipv4Addr;
use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};

use epguard_lab::figures::{Row, Table, percentile};

use super::Effort;
use super::agent::quantile;
use super::background::Waits;
use super::cluster::{Cluster, JOB_PODS, JOBS};
use super::objects::{Pod, State};
use super::requests;
use super::size::{self, BIG, SLICE};

/// Nodes join and reboot in turns. Returns the longest wait.
pub(crate) fn join(table: &mut Table, cluster: &Cluster, waits: &Waits, effort: &Effort) -> f64 {
    let mut samples = Vec::new();
    let nodes = cluster.size.nodes..cluster.size.nodes + effort.nodes;
    for node in nodes {
        for boot in ["joined", "rebooted"] {
            let mut object = cluster.objects.node(node);
            let id = &mut object["status"]["nodeInfo"]["bootID"];
            *id = format!("{}-{boot}", id.as_str().unwrap()).into();
            waits.longest();
            cluster.store().apply(object).unwrap();
            sleep(Duration::from_secs(1));
            samples.push(waits.longest());
        }
    }
    let longest = samples.iter().copied().fold(0.0, f64::max);
    let name = "longest wait after a Node joined or rebooted";
    table.rows.push(Row::new(name, "ms", samples).at_most(5.0));
    longest
}

/// Three of four Jobs of a Service finish. Prints what the agent asked for.
pub(crate) fn finish(table: &mut Table, cluster: &mut Cluster) {
    let mut counts = Vec::new();
    let mut octets = Vec::new();
    let mut took = Vec::new();
    let mut shown: Vec<String> = Vec::new();
    for round in 0..JOBS {
        let pods: Vec<_> = (1..JOB_PODS).map(|pod| cluster.job(round, pod)).collect();
        let ips: Vec<Ipv4Addr> = pods
            .iter()
            .map(|pod| cluster.size.ip_of(pod.number))
            .collect();
        let begun = Instant::now();
        for pod in &pods {
            cluster.pod(*pod, State::Ended);
        }
        took.push(cluster.agent.until_denied(&ips, begun).as_secs_f64());
        sleep(Duration::from_secs(1));
        let namespace = size::namespace(pods[0].service);
        let asked = requests::second_lists(&cluster.world.server.api.audit, begun, &namespace);
        counts.push(requests::as_f64(asked.len() as u64));
        octets.push(requests::octets(&asked) / 1e3);
        shown = asked
            .iter()
            .map(|asked| format!("{} {}?{}", asked.verb, asked.path, asked.query))
            .collect();
    }
    let name = "for a second list on 3 of 4 Jobs of a Service";
    table
        .rows
        .push(Row::new(name, "requests", counts).at_most(4.0));
    table.rows.push(Row::new(name, "KB", octets).at_most(100.0));
    let name = "until 3 of 4 finished Jobs of a Service are denied";
    table.rows.push(Row::new(name, "s", took));
    shown.truncate(4);
    eprintln!("second list: {}", shown.join(", "));
}

/// A pod of each of these Services dies. Returns the milliseconds until each was denied.
pub(crate) fn die(cluster: &mut Cluster, services: Range<u32>) -> Vec<f64> {
    let took = services.map(|service| {
        // Not in step with the agent's timers.
        sleep(Duration::from_millis(20 + fastrand::u64(0..80)));
        let number = cluster.size.pods_of(service)[0];
        let dead = cluster
            .objects
            .pod(cluster.objects.own(number), State::Ended);
        let begun = Instant::now();
        cluster.store().apply(dead).unwrap();
        let ip = cluster.size.ip_of(number);
        cluster.agent.until_denied(&[ip], begun).as_secs_f64() * 1e3
    });
    took.collect()
}

/// Pods die, one of each Service. Returns the first Service after these.
pub(crate) fn deaths(table: &mut Table, cluster: &mut Cluster, effort: &Effort) -> u32 {
    let [first, second] = [1, 2].map(|time| 1 + time * effort.deaths);
    let begun = cluster.agent.receipts();
    let idle = die(cluster, 1..first);
    let idle = (idle, quantile(&begun, &cluster.agent.receipts(), 99));
    let changes = cluster.change(1_000);
    sleep(Duration::from_secs(2));
    let begun = cluster.agent.receipts();
    let busy = die(cluster, first..second);
    let busy = (busy, quantile(&begun, &cluster.agent.receipts(), 99));
    let per_second = changes.stop();
    eprintln!("the changes came at {per_second:.0} a second");
    for (load, (samples, receipt), budget) in
        [("idle", idle, 2.0), ("1,000 changes a second", busy, 20.0)]
    {
        let name = format!("from receipt to map, p99 at most, {load}");
        table
            .rows
            .push(Row::new(name, "ms", [receipt]).at_most(budget));
        for percent in [50, 99] {
            let name = format!("from the change at the API server to the map, p{percent}, {load}");
            table.rows.push(Row::new(
                name,
                "ms",
                [percentile(&samples, percent).unwrap()],
            ));
        }
    }
    second
}

pub(crate) fn roll(table: &mut Table, cluster: &Cluster, effort: &Effort) {
    let used = cluster.used(|| replace(cluster, effort.watched..effort.watched + effort.replaced));
    let whole = f64::from(BIG) / f64::from(effort.replaced);
    let name = "rolling update of 5,000 pods";
    table.rows.push(
        Row::new(
            format!("processor time, {name}"),
            "s",
            [used.processor * whole],
        )
        .at_most(2.0),
    );
    table
        .rows
        .push(Row::new(name, "KB", [used.kilobytes * whole]));
    let name = format!("{name}, of these slices and Services");
    table.rows.push(Row::new(name, "KB", [used.shown * whole]));
}

/// Pods that are replaced before the driver waits for the agent. The API server keeps the last
/// 20,000 changes of a kind.
const AT_ONCE: u32 = 250;

/// Replaces these pods of the first Service one by one, as kubelets and controllers do: the new pod
/// is bound and runs, the slice shows it and the old one as terminating; the old pod ends, the
/// slice loses it, and it is removed. All pods before them were replaced already. Returns when the
/// agent has it all in its maps.
pub(crate) fn replace(cluster: &Cluster, pods: Range<u32>) {
    let slices = cluster.size.slices_of(0);
    for number in pods {
        let index = number as usize / SLICE;
        let old = cluster.objects.own(number);
        let new = successor(cluster, number);
        cluster.pod(new, State::Pending);
        cluster.pod(new, State::Running);
        cluster.pod(old, State::Terminating);
        let show = |old_too: bool| {
            let listed = slices[index].iter().map(|pod| {
                let is_replaced = *pod < number;
                let shown = is_replaced.then(|| successor(cluster, *pod).number);
                (shown.unwrap_or(*pod), State::Running)
            });
            let others = listed.filter(|(pod, _)| *pod != number);
            let old = old_too.then_some((number, State::Terminating));
            let listed: Vec<_> = others
                .chain([(new.number, State::Running)])
                .chain(old)
                .collect();
            let slice = cluster.objects.slice(0, index, &listed);
            cluster.store().apply(slice).unwrap();
        };
        show(true);
        cluster.pod(old, State::Ended);
        show(false);
        cluster.remove(old);
        if number % AT_ONCE == AT_ONCE - 1 {
            cluster.until_applied();
        }
    }
    cluster.until_applied();
}

/// The pod that replaces one: on the same node, with another IP.
fn successor(cluster: &Cluster, number: u32) -> Pod {
    Pod {
        number: cluster.size.pods + number,
        service: 0,
    }
}
