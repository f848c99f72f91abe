//! Tests of how the loop's body applies messages, with maps in the kernel.

mod bed;

use super::*;
use crate::daemon::node_thread::Snapshot;
use crate::daemon::translators::TranslatorFollower;
use crate::kernel::maps::open;
use crate::shared::status::{Cause, SocketLb};
use crate::watch::{self, Message};
use aya::maps::{HashMap, MapData};
use bed::*;
use epguard_common::Owner;
use epguard_core::facts::{Change, Object as _, Pod, Routes};
use epguard_fuzz::corpus;
use tokio::time::Instant;

#[tokio::test]
#[ignore = "needs root: loads eBPF programs"]
async fn facts_reach_the_maps_without_a_tick() {
    let bpffs = Bpffs::mount();
    let mut agent = agent(bpffs.0.path());
    agent
        .on_node_event(node_event(NetworkChange::Routes(Some(Routes::default()))))
        .unwrap();
    sync(&mut agent);
    let owners = || {
        let owners: HashMap<MapData, Addr, Owner> =
            open(&bpffs.0.path().join("epguard"), "OWNERS").unwrap();
        owners.keys().count()
    };
    assert_eq!(owners(), 0);
    let pods = corpus("pod");
    let pod = pods.iter().map(|json| Pod::parse(json).unwrap());
    let pod = pod
        .into_iter()
        .find(|pod| !pod.ips.is_empty() && !pod.host_network)
        .unwrap();
    apply(&mut agent, [Fact::Pod(Change::Applied(pod))]);
    assert!(owners() > 0, "the pod's IPs");
}

#[tokio::test]
#[ignore = "needs root: loads eBPF programs"]
async fn a_report_of_the_node_does_not_wait_for_the_end_of_a_list() {
    let bpffs = Bpffs::mount();
    let mut agent = agent(bpffs.0.path());
    sync(&mut agent);
    let ips = vec![Addr::v4([10, 244, 1, 10])];
    let reports = [
        NetworkChange::Addresses(ips.clone()),
        NetworkChange::Routes(Some(Routes::default())),
        NetworkChange::Announced(vec![]),
    ];
    begin_long_list(&mut agent);
    for report in reports {
        agent.on_node_event(node_event(report)).unwrap();
        assert!(agent.state.is_half_applied());
    }
    agent.apply_lift(ips[0], now());
    assert!(agent.state.is_half_applied());
}

#[tokio::test]
#[ignore = "needs root: loads eBPF programs"]
async fn the_history_of_an_ip_comes_with_the_causes_of_packets_without_a_service() {
    let bpffs = Bpffs::mount();
    let folder = bpffs.0.path();
    let translators = TranslatorFollower::new(&Ok(0), folder, folder).snapshot(false);
    let agent = agent_beside(
        folder,
        Found(Snapshot {
            translators,
            ..Snapshot::default()
        }),
    );
    let answer = agent.history_of(std::net::Ipv4Addr::new(10, 244, 1, 10).into());
    let causes: Vec<Cause> = answer
        .translators
        .gaps
        .iter()
        .map(|gap| gap.cause)
        .collect();
    assert_eq!(
        causes,
        [Cause::NotLoaded],
        "the agent has not looked for conntrack yet"
    );
}

#[tokio::test]
#[ignore = "needs root: loads eBPF programs"]
async fn a_kernel_that_lets_no_interface_be_hooked_delays_neither_the_lease_nor_the_end_of_a_denial()
 {
    let bpffs = Bpffs::mount();
    let (slow, answer) = Slow::new();
    let mut agent = agent_beside(bpffs.0.path(), slow);
    deny(&mut agent);
    agent.on_tick().unwrap();
    assert!(lease(&bpffs) > now());
    agent.receive(vec![Message {
        watch: Watched::Pods,
        event: watch::WatchEvent::Behind,
    }]);
    agent.on_tick().unwrap();
    assert_eq!(lease(&bpffs), Duration::ZERO);
    agent.receive(vec![Message {
        watch: Watched::Pods,
        event: proven(),
    }]);
    agent.on_tick().unwrap();
    assert!(lease(&bpffs) > now());
    assert!(!vips(&bpffs).is_empty());
    apply(&mut agent, [live_backend()]);
    assert_eq!(vips(&bpffs), []);
    agent.node.look();
    assert_eq!(agent.node.seen.ticks, 0, "the kernel has not answered yet");
    drop(answer);
}

#[tokio::test]
#[ignore = "needs root: loads eBPF programs"]
async fn a_fact_that_has_waited_for_a_second_ends_the_lease_until_it_is_applied() {
    let bpffs = Bpffs::mount();
    let mut agent = agent(bpffs.0.path());
    deny(&mut agent);
    agent.run_turn().unwrap();
    assert!(lease(&bpffs) > now());
    begin_long_list(&mut agent);
    agent.run_turn().unwrap();
    assert!(lease(&bpffs) > now());
    let received = Instant::now().checked_sub(Duration::from_secs(2)).unwrap();
    agent.receive(vec![message_of(received, pod("b", "Running", "b"))]);
    agent.run_turn().unwrap();
    assert_eq!((agent.waiting(), lease(&bpffs)), (1, Duration::ZERO));
    // What it waits for shows A no more, so that nothing is denied at its end.
    apply(&mut agent, []);
    assert!(lease(&bpffs) > now());
    assert_eq!(agent.lease.lost(), 1);
}

#[tokio::test]
#[ignore = "needs root: loads eBPF programs"]
async fn beside_a_socket_load_balancer_calls_to_the_node_port_of_another_node_are_judged() {
    let bpffs = Bpffs::mount();
    let socket_lb = SocketLb {
        programs: vec!["cil_sock4_connect (id 7)".to_owned()],
        ..SocketLb::default()
    };
    let found = Found(Snapshot {
        socket_lb,
        ..Snapshot::default()
    });
    let mut agent = agent_beside(bpffs.0.path(), found);
    deny(&mut agent);
    let is_judged = || {
        vips(&bpffs)
            .iter()
            .any(|vip| vip.addr == NODE_B && vip.port == NODE_PORT)
    };
    assert!(!is_judged());
    agent.on_snapshot().unwrap();
    apply(&mut agent, []);
    assert!(is_judged());
}

#[tokio::test]
#[ignore = "needs root: loads eBPF programs"]
async fn no_flow_is_redirected_before_the_thread_has_told_that_replies_are_translated() {
    let bpffs = Bpffs::mount();
    let mut agent = agent_beside(bpffs.0.path(), Hooking::default());
    let mut snapshots = agent.node.snapshots();
    agent.on_snapshot().unwrap();
    deny(&mut agent);
    let alive = [
        pod_at("10.244.2.11", "c", "Running", "web"),
        listing("c", "10.244.2.11"),
    ];
    apply(&mut agent, alive);
    assert!(
        !snapshots.borrow_and_update().translates_replies,
        "nothing redirects"
    );
    apply(
        &mut agent,
        [service(
            &serde_json::json!({"epguard.io/action": "redirect"}),
        )],
    );
    assert_eq!(redirected(&bpffs), 0);
    snapshots
        .wait_for(|snapshot| snapshot.translates_replies)
        .await
        .unwrap();
    agent.on_snapshot().unwrap();
    assert_eq!(redirected(&bpffs), 1);
    apply(&mut agent, [service(&serde_json::json!({}))]);
    assert_eq!(redirected(&bpffs), 0);
}
