//! Each fault shows in the rows, with its cause and its remedy.

use super::rig::{Ended, Rig};
use epguard_lab::api::{Exec, Kind, Run};
use epguard_lab::process;
use epguard_lab::proxy::{Frontend, service_rules};
use epguard_lab::wait::PATIENCE;
use std::fmt::Write as _;
use std::time::Instant;

/// A check that finds this, and leaves nothing.
#[track_caller]
fn finds(rig: &mut Rig, ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.code, code, "{ended:?}");
    for word in words {
        assert!(ended.out.contains(word), "{word}: {ended:?}");
    }
    rig.is_clean();
}

#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn a_node_without_hooks_at_its_uplink_does_not_see_what_leaves_there() {
    let mut rig = Rig::with_clsact("{mode: observe, later: true}");
    let node = rig.stage.cluster.topology.node("node-a").unwrap();
    process::output(
        node.netns
            .command("tc")
            .args("qdisc add dev eth0 ingress".split(' ')),
    )
    .unwrap();
    rig.stage.agent.start_again().unwrap();
    let began = Instant::now();
    while !rig.stage.agent.status().is_ok_and(|status| status.synced) {
        assert!(began.elapsed() < PATIENCE);
        rig.step();
    }
    let ended = rig.run("check");
    finds(
        &mut rig,
        &ended,
        1,
        &[
            "1 node: 4 of 16 cells are wrong: FINISHED on node-a",
            "node-a  pod     IPv4    TCP       0 of 10 !  10 of 10  0 of 10       0 of 10   FAILED",
            "node-a, calls to a finished pod: 10 sent, 0 seen: eth0 (uplink) has no hooks, so nothing is denied there: cannot attach ",
            "it is tried again every second; docs/troubleshooting.md",
        ],
    );
}

#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn calls_without_a_record_of_their_connection_are_not_seen() {
    let mut rig = Rig::new("{mode: observe}");
    let mut is_untracked = false;
    let ended = rig.run_while("check", |rig, _| {
        let services = rig.stage.cluster.store.list(Kind::Service);
        let last = services
            .iter()
            .any(|service| service["metadata"]["name"] == "live-1");
        if last && !is_untracked {
            is_untracked = true;
            translate_without_tracking(rig);
        }
    });
    finds(
        &mut rig,
        &ended,
        1,
        &[
            "10 sent, 0 seen: ",
            "packets to suspects passed without a record of the connection",
            "see docs/limits.md",
        ],
    );
}

#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn calls_whose_records_contradict_them_are_not_seen() {
    let mut rig = Rig::new("{mode: observe}");
    let mut is_rewritten = false;
    let ended = rig.run_while("check", |rig, _| {
        let services = rig.stage.cluster.store.list(Kind::Service);
        let mut names = services.iter().map(|service| &service["metadata"]["name"]);
        if !is_rewritten && names.any(|name| name == "live-1") {
            is_rewritten = true;
            rewrite_behind_netfilter(rig);
        }
    });
    finds(
        &mut rig,
        &ended,
        1,
        &[
            "calls to a finished pod: 10 sent, 0 seen: ",
            "packets to suspects passed, as their conntrack entries contradict them",
            "another program changes addresses behind netfilter",
        ],
    );
}

/// Sends packets for the finished pod to the live one, behind connection tracking.
fn rewrite_behind_netfilter(rig: &Rig) {
    let ips = |prefix: &str| {
        let pod = rig.pod(prefix).unwrap();
        [0, 1].map(|index| {
            pod["status"]["podIPs"][index]["ip"]
                .as_str()
                .unwrap()
                .to_owned()
        })
    };
    let mut script = String::new();
    for (family, (from, to)) in ["ip", "ip6"]
        .iter()
        .zip(ips("finished-1").iter().zip(ips("stranger-1")))
    {
        let hook = "type filter hook postrouting priority 400;";
        let _ = writeln!(
            script,
            "add table {family} behind\nadd chain {family} behind post {{ {hook} }}\n\
             add rule {family} behind post {family} daddr {from} {family} daddr set {to}"
        );
    }
    nft(rig, &script);
}

/// Rewrites packets to the stale Services without connection tracking.
fn translate_without_tracking(rig: &Rig) {
    let cluster = &rig.stage.cluster;
    let [services, slices] =
        [Kind::Service, Kind::EndpointSlice].map(|kind| cluster.store.list(kind));
    let mut script = String::new();
    for family in ["ip", "ip6"] {
        let _ = writeln!(script, "add table {family} untracked");
        let hook = "type filter hook prerouting priority raw;";
        let _ = writeln!(script, "add chain {family} untracked pre {{ {hook} }}");
    }
    for rule in service_rules(&services, &slices, "node-a") {
        for frontend in &rule.frontends {
            let Frontend::ClusterIp(vip) = frontend else {
                continue;
            };
            let mut backends = rule.backends.iter();
            let backend = backends.find(|backend| backend.is_ipv4() == vip.is_ipv4());
            let is_stale = rule.name.contains("/finished-") || rule.name.contains("/reused-");
            if let (Some(backend), true) = (backend, is_stale) {
                let family = if vip.is_ipv4() { "ip" } else { "ip6" };
                let _ = writeln!(
                    script,
                    "add rule {family} untracked pre {family} daddr {} notrack {family} daddr set {}",
                    vip.ip(),
                    backend.ip()
                );
            }
        }
    }
    nft(rig, &script);
}

fn nft(rig: &Rig, script: &str) {
    let node = rig.stage.cluster.topology.node("node-a").unwrap();
    let mut nft = node.netns.command("nft");
    let output = process::with_input(nft.args(["-f", "-"]), script, "nftables").unwrap();
    assert!(output.status.success(), "{output:?}: {script}");
}

#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn an_agent_without_a_lease_does_not_see_what_is_sent_then() {
    let mut rig = Rig::new("{mode: enforce, lease: 3, max-view-age: 5}");
    let mut is_stalled = false;
    // The calls to the finished pod take 8 s.
    let ended = rig.run_while("check", |rig, _| {
        if !is_stalled && rig.pod("call-1").is_some() {
            is_stalled = true;
            rig.stage
                .cluster
                .api
                .faults(|faults| faults.mute = [Kind::Pod].into());
        }
    });
    rig.stage.cluster.api.faults(|faults| faults.mute.clear());
    finds(&mut rig, &ended, 1, &["calls to a finished pod: 10 sent, "]);
    let causes = ["seen: the lease has ended (", "seen: watch pods is down: "];
    let is_named = causes.iter().any(|cause| ended.out.contains(cause));
    assert!(is_named, "{ended:?}");
}

#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn a_node_whose_mode_is_off_sees_no_call() {
    let mut rig = Rig::new("{mode: \"off\"}");
    let ended = rig.run("check");
    finds(
        &mut rig,
        &ended,
        1,
        &[
            "10 sent, 0 seen: the mode is off for dead-backend (by flags)",
            "`kubectl epguard mode observe` switches it",
        ],
    );
}

#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn an_agent_that_does_not_answer_is_named_with_its_cause() {
    let mut rig = Rig::new("{mode: observe}");
    rig.answer(|_: &Exec| {
        Some(Run::Prints {
            stdout: vec![],
            stderr: "epguard: no agent answers at /run/epguard\n".into(),
            code: 2,
        })
    });
    let ended = rig.run("check");
    finds(
        &mut rig,
        &ended,
        1,
        &["10 sent, 0 seen: its agent does not answer: no agent answers at /run/epguard"],
    );
}

#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn a_pod_that_does_not_start_is_named_with_its_cause_and_a_remedy() {
    let mut rig = Rig::new("{mode: observe}");
    rig.has_kubelet = false;
    let ended = rig.run("check --timeout 4");
    rig.has_kubelet = true;
    assert_eq!((ended.code, &*ended.out), (2, ""), "{ended:?}");
    for words in [
        "no pod of the check starts on node-a: pod epguard-check-",
        "-other/stranger-1 does not run: Pending: no scheduler has placed it: see whether kube-scheduler runs",
    ] {
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
    rig.is_clean();
}

#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn a_service_that_does_not_answer_before_anything_has_ended_is_not_epguards_fault() {
    let mut rig = Rig::new("{mode: observe}");
    rig.has_proxy = false;
    let ended = rig.run("check --timeout 8");
    finds(
        &mut rig,
        &ended,
        1,
        &[
            "its calls to a Service with a live pod are not answered",
            "not epguard: check kube-proxy, routes and network policies of the node",
        ],
    );
}
