//! Times what one change costs the state in a cluster of 5,000 nodes, 20,000 Services and 100,000 pods: a node that joins
//! or boots, a rolling update, a list.
//!
//! `cargo run --release -p epguard-core --example increments [-- PODS_OF_THE_UPDATE [SERVICES]]`

#![allow(clippy::expect_used, reason = "an example may panic")]

mod cluster;
#[path = "../objects/mod.rs"]
mod objects;

use cluster::{Cluster, NODES, PODS_OF_A_SERVICE};
use epguard_common::UidState;
use epguard_core::facts::{Change, Fact, Ips, Pod, Sandbox};
use std::collections::VecDeque;
use std::time::Duration;

/// Pods of an update that are replaced at the same time.
const AT_ONCE: usize = 25;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse().ok());
    let updated = numbers.next().unwrap_or(5_000);
    let services = numbers.next().unwrap_or(20_000);
    let mut cluster = Cluster::new(services, updated);
    report("sync, in all", &[cluster.sync()]);
    report("sync, longest turn", &[cluster.longest_turn()]);

    let boots: Vec<Duration> = (0..20).map(|number| cluster.reboot(number * 7)).collect();
    report("a node boots", &boots);
    let joins: Vec<Duration> = (0..20).map(|number| cluster.join(NODES + number)).collect();
    report("a node joins", &joins);

    let steps = rolling_update(&mut cluster, updated);
    let in_all: Duration = steps.iter().sum();
    let pod = in_all / u32::try_from(updated.max(1)).unwrap_or(1);
    report("rolling update, in all", &[in_all]);
    report("rolling update, for one pod", &[pod]);
    report("rolling update, one fact", &steps);
    println!(
        "denials {}, pods of the update {updated}, services {services} of {PODS_OF_A_SERVICE} pods",
        cluster.state.tables().denied.len()
    );
    report("a node boots, after the update", &[cluster.reboot(3)]);
    let ticks: Vec<Duration> = (0..20).map(|_| cluster.tick()).collect();
    report("a tick", &ticks);

    cluster.longest_turn();
    report("lists of all pods and slices, in all", &[cluster.relist()]);
    report(
        "lists of all pods and slices, longest turn",
        &[cluster.longest_turn()],
    );
}

/// Replaces each pod of the first Service, as a Deployment, a kubelet and the endpoint slice controller do.
fn rolling_update(cluster: &mut Cluster, pods: usize) -> Vec<Duration> {
    let mut steps = Vec::new();
    let mut starting = VecDeque::new();
    for number in 0..pods + AT_ONCE {
        if number < pods {
            let new = cluster.replacement(number);
            let pending = Pod {
                ips: Ips::new(),
                sandbox: Sandbox::Unsettled,
                ..new.clone()
            };
            steps.push(cluster.apply(Fact::Pod(Change::Applied(pending))));
            starting.push_back((number, new));
        }
        if number < AT_ONCE {
            continue;
        }
        let Some((number, new)) = starting.pop_front() else {
            break;
        };
        steps.push(cluster.apply(Fact::Pod(Change::Applied(new.clone()))));
        steps.push(cluster.list_pod(number, &new));
        let old = Pod {
            deleting: true,
            ..cluster.objects.pod(number, 0)
        };
        steps.push(cluster.apply(Fact::Pod(Change::Applied(old.clone()))));
        steps.push(cluster.unready(&old));
        let dead = Pod {
            uid_state: UidState::Dead,
            sandbox: Sandbox::Unsettled,
            ..old
        };
        steps.push(cluster.apply(Fact::Pod(Change::Applied(dead.clone()))));
        steps.push(cluster.unlist(&dead));
        steps.push(cluster.apply(Fact::Pod(Change::Deleted(dead))));
    }
    steps
}

fn report(what: &str, times: &[Duration]) {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let ms = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
    let (median, least, most) = (sorted.get(sorted.len() / 2), sorted.first(), sorted.last());
    println!(
        "{what:<45} median {:10.3} ms, least {:10.3} ms, most {:10.3} ms",
        ms(median),
        ms(least),
        ms(most)
    );
}
