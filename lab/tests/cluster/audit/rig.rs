//! A node whose flows are behind the API, and `epguard audit` on it.

use crate::stage::{PATIENCE, ip, netns, until};
use epguard_lab::scenario::format::PodEvent;
use epguard_lab::scenario::stage::Stage;
use serde_json::json;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

pub(crate) const STORY: &str = "
agent: {mode: enforce}
pods:
  web: {is: old/web-1, ip: X, labels: {app: web}}
  gone: {is: old/gone-1, labels: {app: gone}}
  late: {is: old/late-1, labels: {app: late}}
  api: {is: ok/api-1, labels: {app: api}}
  shop: {is: new/shop-1, ip: X, labels: {app: shop}}
services:
  old/web: {selector: {app: web}}
  old/gone: {selector: {app: gone}}
  old/late: {selector: {app: late}}
  ok/api: {selector: {app: api}}
steps:
  - pods: [web starts, gone starts, late starts, api starts]
  - slices: {old/web: {web: ready}, old/gone: {gone: ready}, old/late: {late: ready}, ok/api: {api: ready}}
  - proxy: sync
";

pub(crate) const SERVICES: [&str; 4] = ["old/web", "old/gone", "old/late", "ok/api"];

/// Pods end, and neither slices nor rules follow.
pub(crate) fn fall_behind(stage: &mut Stage) {
    for (pod, event) in [
        ("web", PodEvent::Fails),
        ("gone", PodEvent::Fails),
        ("late", PodEvent::FailedByPodgc),
        ("shop", PodEvent::Starts),
    ] {
        stage.cluster.pod_event(pod, event).unwrap();
    }
    stage.catch_up().unwrap();
    // gone's IP becomes an orphan IP only after a check of the node's neighbours and routes.
    until("an IP is terminated", || stage.agent.dump().unwrap()["terminated"] != json!([]));
}

pub(crate) fn endpoint(stage: &Stage, pod: &str) -> SocketAddr {
    SocketAddr::new(ip(stage, pod), 8080)
}

pub(crate) fn connect(stage: &Stage, to: SocketAddr) -> TcpStream {
    let stream = netns(stage, "client").run(|| TcpStream::connect_timeout(&to, PATIENCE));
    stream.unwrap().unwrap()
}

pub(crate) fn command(stage: &Stage, arguments: &[&str]) -> Command {
    let mut command = netns(stage, "node-a").command(epguard_lab::process::epguard().unwrap());
    command.arg("audit").args(arguments);
    command.arg("--run-dir").arg(stage.workdir.path());
    command.arg("--pin-dir").arg(stage.agent.pin_dir());
    command
}

/// The exit code and the output, without values that differ from run to run: ports of clients, the number of all
/// flows, and so the width of columns.
pub(crate) fn audit(stage: &Stage) -> (i32, String) {
    let output = command(stage, &[]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    println!("{text}");
    let client = ip(stage, "client");
    let word = |word: &str| match word.rsplit_once(':') {
        Some((ip, _)) if ip.trim_matches(['[', ']']) == client.to_string() => "CLIENT".to_owned(),
        None if ["ESTABLISHED", "FIN_WAIT", "CLOSE_WAIT", "LAST_ACK"].contains(&word) => {
            "TCPSTATE".to_owned()
        }
        _ => word.to_owned(),
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.lines().map(line).collect();
    let masked = lines.join("\n");
    let (before, after) = masked.split_once("compared ").unwrap();
    let (_, after) = after.split_once(' ').unwrap();
    (output.status.code().unwrap(), format!("{before}compared N {after}"))
}
