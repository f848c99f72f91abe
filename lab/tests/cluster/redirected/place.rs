//! A's Service asks for redirection. A is dead, B of another namespace has its IP, L lives.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use epguard_lab::scenario::format::{Condition, PodEvent};
use epguard_lab::scenario::stage::Stage;
use epguard_lab::scenario::variant::Variant;

/// Port of the pods' echo servers; the lab's own servers have 8080.
pub(crate) const PORT: u16 = 9000;

const STORY: &str = "
id: steered
title: t
must: m
agent: {mode: enforce}
pods:
  A: {is: old/web-1, ip: X, labels: {app: web}}
  L: {is: old/web-2, labels: {app: web}}
  C: {is: ok/api, labels: {app: api}}
  B: {is: new/shop, ip: X, labels: {app: shop}}
services:
  old/web: {selector: {app: web}, target-port: 9000, annotations: {epguard.io/action: redirect}}
  ok/api: {selector: {app: api}, target-port: 9000}
steps:
  - proxy: sync
";

/// The stage, once flows to `old/web` are redirected.
pub(crate) fn stage() -> Stage {
    staged(STORY)
}

/// As [`stage`], with a bridge that joins the node's pods.
pub(crate) fn stage_on_a_bridge() -> Stage {
    staged(&STORY.replace("agent:", "runs: {cni: [bridge]}\nagent:"))
}

/// As [`stage`], with a Service of UDP, too, and these words of the story replaced by others.
pub(crate) fn stage_with_udp(from: &str, to: &str) -> Stage {
    let udp = "annotations: {epguard.io/action: redirect}";
    staged(&STORY.replace(udp, &format!("protocols: [tcp, udp], {udp}")).replace(from, to))
}

/// As [`stage`], with a Service that does not ask for redirection.
pub(crate) fn stage_unasked() -> Stage {
    staged(&STORY.replace("redirect", "drop").replace(", annotations: {epguard.io/action: drop}", ""))
}

fn staged(story: &str) -> Stage {
    let scenario = epguard_lab::scenario::parse(story, "steered").unwrap();
    let mut stage = Stage::new(&scenario, Variant::all(&scenario.runs).remove(0), None).unwrap();
    let cluster = &mut stage.cluster;
    let ready = |pods: &[&str]| {
        let ready = pods.iter().map(|pod| ((*pod).to_owned(), Condition::Ready));
        ready.collect()
    };
    for pod in ["A", "C"] {
        cluster.pod_event(pod, PodEvent::Starts).unwrap();
    }
    cluster.set_slice("old/web", &ready(&["A"])).unwrap();
    cluster.set_slice("ok/api", &ready(&["C"])).unwrap();
    cluster.sync_proxy().unwrap();
    cluster.pod_event("L", PodEvent::Starts).unwrap();
    cluster.set_slice("old/web", &ready(&["A", "L"])).unwrap();
    cluster.pod_event("A", PodEvent::Fails).unwrap();
    cluster.pod_event("B", PodEvent::Starts).unwrap();
    stage.catch_up().unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    while !denies(&stage) {
        assert!(Instant::now() < deadline, "nothing is denied");
        sleep(Duration::from_millis(10));
    }
    stage
}

/// A list alone denies nothing, so the first denial waits for its confirmation.
fn denies(stage: &Stage) -> bool {
    let dump = stage.agent.dump().unwrap();
    let denied = dump["denied"].as_array().unwrap();
    denied.iter().any(|denial| denial["held"] == false)
}

/// The address and port of a Service.
pub(crate) fn vip(stage: &Stage, service: &str) -> SocketAddr {
    SocketAddr::new(stage.cluster.names.service(service).unwrap().vip, 80)
}

/// A connection of the pod `client`.
pub(crate) fn connect(stage: &Stage, service: &str) -> std::io::Result<TcpStream> {
    let client = stage.cluster.topology.pod("client").unwrap();
    let to = vip(stage, service);
    let stream = client.netns.run(|| TcpStream::connect_timeout(&to, Duration::from_mins(1))).unwrap()?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    stream.set_write_timeout(Some(Duration::from_mins(1)))?;
    Ok(stream)
}

/// A server in a pod that returns all data; the result counts its connections.
pub(crate) fn echo(stage: &Stage, pod: &str) -> Arc<AtomicUsize> {
    let at = SocketAddr::new(stage.cluster.names.pod(pod).unwrap().ip, PORT);
    let netns = &stage.cluster.topology.pod(pod).unwrap().netns;
    let listener = netns.run(|| TcpListener::bind(at)).unwrap().unwrap();
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || return_all(stream));
        }
    });
    taken
}

fn return_all(mut stream: TcpStream) {
    let mut chunk = vec![0; 1 << 18];
    while let Ok(length @ 1..) = stream.read(&mut chunk) {
        if stream.write_all(&chunk[..length]).is_err() {
            return;
        }
    }
}
