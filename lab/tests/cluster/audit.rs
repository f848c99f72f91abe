//! `epguard audit` on a node whose flows are behind the API.

use nix::libc;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use epguard_lab::scenario::format::{PodEvent, Runs};
use epguard_lab::scenario::stage::Stage;
use epguard_lab::scenario::variant::Variant;
use serde_json::json;

use crate::stage::{connect_from, ip, netns, stage, stage_as, until, vip};

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn audit_finds_nothing_on_a_clean_node_and_then_names_all_stale_state() {
    for family in Variant::all(&Runs::default()) {
        let mut stage = stage_as(STORY, family);
        keep_closing_flows(&stage);
        let to = SERVICES.map(|service| vip(&stage, service));
        let _flows = to.map(|vip| connect_from(&stage, "client", vip).unwrap());
        let _cached = connect_from(&stage, "client", endpoint(&stage, "gone")).unwrap();
        assert_eq!(audit(&stage), (0, CLEAN.to_owned()));

        fall_behind(&mut stage);
        let mut expected = FALLEN_BEHIND.to_owned();
        for pod in ["web", "gone", "late"] {
            let names = [format!("{pod}:8080"), format!("VIP-OF-{pod}")];
            let addresses = [endpoint(&stage, pod), vip(&stage, &format!("old/{pod}"))];
            for (name, address) in names.iter().zip(addresses) {
                expected = expected.replace(name, &address.to_string());
            }
        }
        let (code, text) = audit(&stage);
        assert_eq!((code, text.as_str()), (1, expected.as_str()), "{text}");
    }
}

/// Flows to a removed server stay for the whole test.
fn keep_closing_flows(stage: &Stage) {
    for name in ["close_wait", "fin_wait"] {
        let file = format!("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_{name}");
        netns(stage, "node-a")
            .run(|| std::fs::write(file, "600"))
            .unwrap()
            .unwrap();
    }
}

const CLEAN: &str =
    "node-a: nothing is stale; compared N flows with 0 endpoints whose pods have ended";

const FALLEN_BEHIND: &str = "\
node-a: stale: 3 flows, 1 allowed to end; compared N flows with 4 endpoints whose pods have ended

STATE CONNECTION FLOWS SERVICE ENDPOINT MEANT HIT REASON FIRST
stale TCPSTATE 1 - gone:8080 TCP old/gone-1 nobody terminated CLIENT -> gone:8080
stale TCPSTATE 1 old/gone:80 gone:8080 TCP old/gone-1 nobody dead-backend CLIENT -> VIP-OF-gone
stale TCPSTATE 1 old/web:80 web:8080 TCP old/web-1 new/shop-1 reused CLIENT -> VIP-OF-web
allowed to end TCPSTATE 1 old/late:80 late:8080 TCP old/late-1 nobody retired-backend CLIENT -> VIP-OF-late";

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn without_privileges_audit_calls_nothing_clean_and_names_the_remedy() {
    let stage = stage(STORY);
    let mut audit = command(&stage);
    // SAFETY: the closure only makes a system call, which changes this process's bounding set.
    unsafe {
        audit.pre_exec(|| {
            libc::prctl(libc::PR_CAPBSET_DROP, NET_ADMIN, 0, 0, 0);
            Ok(())
        });
    }
    let output = audit.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), text.as_str()), (Some(2), NOT_LOOKED));
}

/// linux/capability.h
const NET_ADMIN: libc::c_ulong = 12;

const NOT_LOOKED: &str = "\
node-a: nothing is stale; compared no flows with 0 endpoints whose pods have ended

not read: conntrack: the kernel does not list it: Operation not permitted (os error 1): run this as root, in the node's network \
namespace; the kernel needs nf_conntrack_netlink
";

const STORY: &str = "
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

const SERVICES: [&str; 4] = ["old/web", "old/gone", "old/late", "ok/api"];

/// Pods end, and neither slices nor rules follow.
fn fall_behind(stage: &mut Stage) {
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
    until("an IP is terminated", || {
        stage.agent.dump().unwrap()["terminated"] != json!([])
    });
}

fn endpoint(stage: &Stage, pod: &str) -> SocketAddr {
    SocketAddr::new(ip(stage, pod), 8080)
}

fn command(stage: &Stage) -> Command {
    let mut command = netns(stage, "node-a").command(epguard_lab::process::epguard().unwrap());
    command
        .arg("audit")
        .arg("--run-dir")
        .arg(&stage.workdir.path);
    command.arg("--pin-dir").arg(&stage.agent.pin_dir);
    command
}

/// The exit code and the output, without values that differ from run to run: ports of clients, the
/// number of all flows, and so the width of columns.
fn audit(stage: &Stage) -> (i32, String) {
    let output = command(stage).output().unwrap();
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
    let lines: Vec<String> = text
        .lines()
        .map(|line: &str| {
            line.split_whitespace()
                .map(word)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    let masked = lines.join("\n");
    let (before, after) = masked.split_once("compared ").unwrap();
    let (_, after) = after.split_once(' ').unwrap();
    (
        output.status.code().unwrap(),
        format!("{before}compared N {after}"),
    )
}
