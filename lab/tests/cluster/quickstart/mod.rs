//! Where the commands of the quick start run, and those of all pages: a shell, with kubectl and
//! Helm against an API server, and the agent as in its `DaemonSet`.

pub(crate) mod kubelet;
pub(crate) mod published;
pub(crate) mod shell;

use epguard_lab::scenario::cluster::Cluster;
use epguard_lab::scenario::format::{Condition, PodEvent};
use epguard_lab::scenario::variant::Variant;
use std::net::TcpStream;
use std::time::Duration;

/// With the names of the pages.
const STORY: &str = "
id: t
title: t
must: m
pods:
  A: {is: shop/a, ip: X, labels: {app: web}}
services:
  shop/web: {selector: {app: web}}
steps:
  - proxy: sync
";

/// A cluster in which one pod, `A`, runs behind the Service `shop/web`.
pub(crate) fn cluster() -> Cluster {
    let scenario = epguard_lab::scenario::parse(STORY, "story").unwrap();
    let mut cluster = Cluster::new(&scenario, Variant::all(&scenario.runs).remove(0)).unwrap();
    cluster.pod_event("A", PodEvent::Starts).unwrap();
    let ready = [("A".to_owned(), Condition::Ready)].into();
    cluster.set_slice("shop/web", &ready).unwrap();
    cluster.sync_proxy().unwrap();
    cluster
}

/// The client's pod calls the Service, with a short timeout.
pub(crate) fn calls(cluster: &Cluster) {
    let vip = (cluster.names.service("shop/web").unwrap().vip, 80).into();
    let client = cluster.topology.pod("client").unwrap();
    let _ = client
        .netns
        .run(|| TcpStream::connect_timeout(&vip, Duration::from_millis(100)))
        .unwrap();
}
