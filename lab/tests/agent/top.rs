//! `epguard top` beside a real agent, while a client calls a Service whose pod is dead and whose IP another pod has.

use epguard_lab::scenario::format::{Condition, PodEvent, Runs};
use epguard_lab::scenario::stage::Stage;
use epguard_lab::scenario::variant::Variant;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const STORY: &str = "
id: top
title: t
must: m
agent: {mode: enforce}
pods:
  A: {is: old/web-1, ip: X, labels: {app: web}}
  B: {is: new/shop, ip: X, labels: {app: shop}}
services:
  old/web: {selector: {app: web}}
steps:
  - proxy: sync
";

#[test]
#[ignore = "needs root: runs the agent"]
fn a_flow_is_shown_with_its_service_both_pods_and_its_rate_while_it_is_denied() {
    let stage = stage();
    let mut top = top(&stage);
    while top.try_wait().unwrap().is_none() {
        call(&stage);
    }
    let output = top.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    println!("{text}");
    assert!(output.status.success());
    assert!(
        text.starts_with("epguard on node-a: enforce (by flags)   view as of "),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "a pipe gets no colours: {text}");
    let flow = text.lines().last().unwrap();
    let words: Vec<&str> = flow.split_whitespace().collect();
    let [
        rate,
        service,
        endpoint,
        "TCP",
        "reused",
        "dropped",
        meant,
        hit,
        ..,
    ] = words.as_slice()
    else {
        panic!("{text}")
    };
    let target = stage.cluster.names.pod("A").unwrap().ip;
    assert!(endpoint.starts_with(&format!("{target}:")), "{flow}");
    assert_eq!([service, meant, hit], [&"old/web", &"old/web-1", &"new/shop"]);
    assert!(rate.parse::<f64>().is_ok(), "{flow}");
    // A second may pass without a packet where the machine is busy.
    let rates = |is: &dyn Fn(&str) -> bool, column: usize| {
        let lines = text.lines().filter(|line| is(line));
        let words = lines.filter_map(|line| line.split_whitespace().nth(column));
        words.filter_map(|word| word.parse().ok()).fold(0.0, f64::max)
    };
    assert!(rates(&|line| line.contains("old/web-1"), 0) > 0.0, "{text}");
    assert!(rates(&|line| line.starts_with("reused "), 1) > 0.0, "{text}");
}

/// A is dead, B has its IP, and the proxy sends calls for A to B.
fn stage() -> Stage {
    let scenario = epguard_lab::scenario::parse(STORY, "top").unwrap();
    let mut stage = Stage::new(&scenario, Variant::all(&Runs::default()).remove(0), None).unwrap();
    let cluster = &mut stage.cluster;
    cluster.pod_event("A", PodEvent::Starts).unwrap();
    let listed = [("A".to_owned(), Condition::Ready)].into();
    cluster.set_slice("old/web", &listed).unwrap();
    cluster.sync_proxy().unwrap();
    cluster.pod_event("A", PodEvent::Fails).unwrap();
    cluster.pod_event("B", PodEvent::Starts).unwrap();
    stage.catch_up().unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    // A list alone denies nothing, so the first denial waits for its confirmation.
    while stage.agent.dump().unwrap()["denied"][0]["held"] != false {
        assert!(Instant::now() < deadline, "nothing is denied");
        sleep(Duration::from_millis(10));
    }
    stage
}

fn top(stage: &Stage) -> Child {
    let mut top = Command::new(epguard_lab::process::epguard().unwrap());
    top.args(["top", "--batch", "-n", "3", "--pin-dir"])
        .arg(stage.agent.pin_dir())
        .arg("--run-dir")
        .arg(stage.workdir.path());
    top.stdout(Stdio::piped()).spawn().unwrap()
}

/// Sends one SYN, which gets no answer.
fn call(stage: &Stage) {
    let service = SocketAddr::new(stage.cluster.names.service("old/web").unwrap().vip, 80);
    let client = stage.cluster.topology.pod("client").unwrap();
    let called = client
        .netns
        .run(|| TcpStream::connect_timeout(&service, Duration::from_millis(50)));
    assert!(called.unwrap().is_err());
}
