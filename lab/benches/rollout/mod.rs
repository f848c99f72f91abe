//! `cargo xtask bench rollout`: for which part of the time an endpoint that nobody of the Service
//! has is denied while the Service's pods are replaced, one rollout after the other.
//!
//! The cluster is simulated, second by second: no time of this machine is measured.

mod cluster;

use cluster::Cluster;
use epguard_lab::figures::{Row, Table};
use std::time::Duration;

/// For so long the pods are replaced.
const LASTS: Duration = Duration::from_mins(5);
const STEP: Duration = Duration::from_millis(100);

/// How the pods of a Deployment are replaced.
#[derive(Clone, Copy)]
struct Rollout {
    name: &'static str,
    pods: usize,
    surge: usize,
    /// From the binding of a pod to its IP in the API, and its readiness.
    seconds_to_ip: u64,
    /// One more pod, which never has an IP.
    is_one_stuck: bool,
}

const ROLLOUTS: [Rollout; 5] = [
    Rollout {
        name: "10 pods, surge 3, IP after 2 s",
        pods: 10,
        surge: 3,
        seconds_to_ip: 2,
        is_one_stuck: false,
    },
    Rollout {
        name: "10 pods, surge 3, IP after 30 s",
        pods: 10,
        surge: 3,
        seconds_to_ip: 30,
        is_one_stuck: false,
    },
    Rollout {
        name: "100 pods, surge 25, IP after 5 s",
        pods: 100,
        surge: 25,
        seconds_to_ip: 5,
        is_one_stuck: false,
    },
    Rollout {
        name: "4 pods, surge 1, IP after 60 s",
        pods: 4,
        surge: 1,
        seconds_to_ip: 60,
        is_one_stuck: false,
    },
    Rollout {
        name: "10 pods, and one that never starts",
        pods: 10,
        surge: 3,
        seconds_to_ip: 2,
        is_one_stuck: true,
    },
];

/// Nodes, and whether they have ranges.
const CLUSTERS: [(u8, bool); 3] = [(100, true), (10, true), (100, false)];

/// A table for each reason.
pub(crate) fn tables(quick: bool) -> Vec<Table> {
    let mut reused = Table::new("reused in force, of the time in which a stranger shows the IP");
    let mut dead = Table::new("dead-backend in force, of the time in which no pod has the IP");
    for (nodes, has_ranges) in CLUSTERS {
        for rollout in ROLLOUTS {
            let mut cluster = Cluster::new(&rollout, nodes, has_ranges);
            let lasts = if quick { LASTS / 5 } else { LASTS };
            let mut now = Duration::ZERO;
            while now < lasts {
                now += STEP;
                cluster.step(now);
            }
            let ipam = if has_ranges { "ranges" } else { "one pool" };
            let name = format!("{nodes} nodes, {ipam}: {}", rollout.name);
            reused
                .rows
                .push(Row::new(name.clone(), "%", [cluster.reused.percent()]).at_least(99.0));
            // A pod that starts on the node of the dead one may have its IP.
            let few_start_there = has_ranges && rollout.surge * 20 <= usize::from(nodes);
            let limit = few_start_there.then_some(95.0);
            dead.rows
                .push(Row::new(name, "%", [cluster.dead.percent()]).at_least(limit));
        }
    }
    vec![reused, dead]
}
