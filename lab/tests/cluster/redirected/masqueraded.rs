//! Two pods with the same address and port of their node, as masquerading may give them: conntrack
//! lets them share it for different destinations.

use std::io::ErrorKind;

use super::place::{address, call, echo, stage, taken};
use crate::stage::{connect_from, ip, netns, vip};
use epguard_lab::scenario::stage::Stage;

/// The source port of both pods' packets after masquerading.
const SHARED: u16 = 45_001;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_masqueraded_client_is_refused_and_another_one_keeps_the_live_endpoint_from_the_same_port() {
    let stage = stage();
    let servers = (echo(&stage, "L"), echo(&stage, "B"));
    masquerade(&stage, &["C", "client"], &SHARED.to_string());
    // conntrack sees no answer to a pod, so an entry keeps the only port until it times out: the
    // next client's first SYN is lost.
    let timeout = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_syn_sent";
    netns(&stage, "node-a")
        .run(|| std::fs::write(timeout, "1"))
        .unwrap()
        .unwrap();
    // A redirected flow to L would occupy the address and port that the next connection needs.
    refused(&stage, "C");
    let mut direct = connect_from(&stage, "client", address(&stage, "L")).unwrap();
    assert_eq!(direct.local_addr().unwrap().ip(), ip(&stage, "client"));
    call(&mut direct).unwrap();
    refused(&stage, "C");
    call(&mut direct).unwrap();
    assert_eq!(taken(&servers.1), 0, "the stranger got a connection");
    assert_eq!(
        taken(&servers.0),
        1,
        "L got more than the connection of its own client"
    );
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn of_two_masqueraded_clients_behind_one_ip_each_gets_its_own_refusal() {
    let stage = stage();
    let servers = (echo(&stage, "L"), echo(&stage, "B"));
    // Conntrack gives each connection one of few ports: answers to one must not end another.
    masquerade(&stage, &["C", "client"], "45001-45064");
    std::thread::scope(|scope| {
        let both = ["C", "client"].map(|pod| {
            let stage = &stage;
            scope.spawn(move || (0..20).for_each(|_| refused(stage, pod)))
        });
        for pod in both {
            pod.join().unwrap();
        }
    });
    assert_eq!((taken(&servers.0), taken(&servers.1)), (0, 0));
}

/// Gives TCP connections of these pods the node's address and one of these ports, before
/// kube-proxy's rules can.
fn masquerade(stage: &Stage, pods: &[&str], ports: &str) {
    let node = stage.cluster.topology.node("node-a").unwrap();
    let clients: Vec<String> = pods.iter().map(|pod| ip(stage, pod).to_string()).collect();
    let rules = format!(
        "table ip shared {{ chain post {{ type nat hook postrouting priority 90; \
         ip saddr {{ {} }} meta l4proto tcp snat to {}:{ports}; }}; }}",
        clients.join(", "),
        node.ipv4
    );
    let done = node.netns.command("nft").arg(rules).status().unwrap();
    assert!(done.success());
}

fn refused(stage: &Stage, pod: &str) {
    let error = connect_from(stage, pod, vip(stage, "old/web")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{pod}: {error}");
}
