//! What changes in any cluster: pods that nothing depends on, Nodes by their heartbeats, and objects that the agents don't watch.

use super::cluster::Cluster;
use super::objects::{Pod, State};
use super::support::changes::time;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep};

/// Between two changes of pods.
pub(crate) const PODS: Duration = Duration::from_millis(500);
/// Pods that change in turn.
const CHANGING: u32 = 500;
/// Between two heartbeats of a Node whose status stays the same.
pub(crate) const HEARTBEAT: Duration = Duration::from_mins(5);

/// Changes until these tasks are aborted.
pub(crate) fn start(cluster: &Cluster) -> [JoinHandle<()>; 2] {
    let size = cluster.size;
    // The last pods: the first ones of Services are dead.
    let last = (1..=CHANGING).map(|back| size.pods - back);
    let mut pods: Vec<_> = last
        .map(|number| {
            let service = size.service_of(number);
            cluster.objects.pod(Pod { number, service }, State::Running)
        })
        .collect();
    let mut nodes: Vec<_> = (0..size.nodes).map(|node| cluster.objects.node(node)).collect();
    let store = cluster.store.clone();
    let pods = tokio::spawn(async move {
        let mut tick = interval(PODS);
        for made in 0_u32.. {
            tick.tick().await;
            store.advance();
            let index = made as usize % pods.len();
            pods[index]["status"]["conditions"][2]["lastProbeTime"] = time(made).into();
            store.apply(pods[index].clone()).unwrap();
        }
    });
    let store = cluster.store.clone();
    let nodes = tokio::spawn(async move {
        for made in 0_u32.. {
            sleep(HEARTBEAT / size.nodes).await;
            let index = made as usize % nodes.len();
            nodes[index]["status"]["conditions"][0]["lastHeartbeatTime"] = time(made).into();
            store.apply(nodes[index].clone()).unwrap();
        }
    });
    [pods, nodes]
}
