//! A process of the node has opened connections that are not answered yet when their endpoint is
//! denied: their SYNs are repeated, and must not reach the IP's next holder.

use nix::libc;
use std::cell::Cell;
use std::fmt::Write as _;
use std::net::SocketAddr;

use crate::stage::{netns, stage_as, until, vip};
use epguard_common::{Outcome, Reason};
use epguard_lab::net::NetNs;
use epguard_lab::scenario::format::{Condition, PodEvent, Runs};
use epguard_lab::scenario::stage::Stage;
use epguard_lab::scenario::variant::Variant;
use socket2::{Domain, Socket, Type};

/// Open calls at each reuse.
const CALLS: usize = 8;
/// How often an IP of each family is reused.
const REUSES: usize = 50;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn calls_that_were_under_way_when_the_denial_began_are_not_answered_over_100_reuses() {
    for family in Variant::all(&Runs::default()) {
        let mut stage = stage(family);
        let answered: Vec<SocketAddr> = (0..REUSES)
            .flat_map(|run| hand_on(&mut stage, run))
            .collect();
        assert!(
            answered.is_empty(),
            "{family}: the next holder answered {answered:?}\n{}",
            stage.agent.log()
        );
        let denied = denied(&stage);
        assert!(
            denied > REUSES as u64,
            "few calls were sent again and denied: {denied}"
        );
    }
}

/// Each run has a Service, its pod, and the stranger that gets the pod's IP.
fn stage(family: Variant) -> Stage {
    let mut pods = String::new();
    let mut services = String::new();
    for run in 0..REUSES {
        let _ = writeln!(
            pods,
            "  A{run}: {{is: old/a-{run}, ip: X{run}, labels: {{app: a{run}}}}}"
        );
        let _ = writeln!(pods, "  B{run}: {{is: new/b-{run}, ip: X{run}}}");
        let _ = writeln!(services, "  old/a{run}: {{selector: {{app: a{run}}}}}");
    }
    stage_as(
        &format!(
            "agent: {{mode: enforce}}\npods:\n{pods}services:\n{services}steps:\n  - proxy: sync\n"
        ),
        family,
    )
}

/// A dies, B gets its IP. Returns the calls to A's Service that B answered, by their source.
fn hand_on(stage: &mut Stage, run: usize) -> Vec<SocketAddr> {
    let a = format!("A{run}");
    let b = format!("B{run}");
    let service = format!("old/a{run}");
    stage.cluster.pod_event(&a, PodEvent::Starts).unwrap();
    let ready = [(a.clone(), Condition::Ready)].into();
    stage.cluster.set_slice(&service, &ready).unwrap();
    stage.cluster.sync_proxy().unwrap();
    stage.catch_up().unwrap();
    fall_silent(stage, &a);
    let to = vip(stage, &service);
    let calls: Vec<Socket> = (0..CALLS)
        .map(|_| open(netns(stage, "node-a"), to))
        .collect();
    stage.cluster.pod_event(&a, PodEvent::Fails).unwrap();
    stage.catch_up().unwrap();
    let before = denied(stage);
    stage.cluster.pod_event(&b, PodEvent::Starts).unwrap();
    stage.catch_up().unwrap();
    // Each call repeats its SYN after a second. A busy machine may take longer to make B answer its
    // neighbours than a call lives.
    let failed = Cell::new(0);
    until(
        "the stranger answers, or all calls have sent again or failed",
        || {
            failed.set(
                failed.get()
                    + calls
                        .iter()
                        .filter(|call| call.take_error().unwrap().is_some())
                        .count(),
            );
            let over = denied(stage) - before + failed.get() as u64;
            over >= CALLS as u64 || calls.iter().any(|call| call.peer_addr().is_ok())
        },
    );
    let answered = calls.iter().filter(|call| call.peer_addr().is_ok());
    let answered = answered
        .filter_map(|call| call.local_addr().unwrap().as_socket())
        .collect();
    drop(calls);
    stage.cluster.pod_event(&b, PodEvent::SandboxDown).unwrap();
    stage.cluster.pod_event(&b, PodEvent::Gone).unwrap();
    stage.cluster.pod_event(&a, PodEvent::Gone).unwrap();
    stage.catch_up().unwrap();
    answered
}

/// Begins to connect, without waiting for the result.
fn open(node: &NetNs, to: SocketAddr) -> Socket {
    let socket = node.run(|| Socket::new(Domain::for_address(to), Type::STREAM, None));
    let socket = socket.unwrap().unwrap();
    socket.set_nonblocking(true).unwrap();
    let error = socket.connect(&to.into()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINPROGRESS));
    socket
}

/// Simulates the death of the pod's node: the pod answers no more, and closes nothing.
fn fall_silent(stage: &Stage, pod: &str) {
    let pod = netns(stage, pod);
    let chain = |hook| {
        format!("add chain inet dead {hook} {{ type filter hook {hook} priority 0; policy drop; }}")
    };
    let script = format!(
        "add table inet dead; {}; {}",
        chain("input"),
        chain("output")
    );
    assert!(pod.command("nft").arg(script).status().unwrap().success());
}

fn denied(stage: &Stage) -> u64 {
    let counters = stage.counters().unwrap();
    counters.of(Reason::DeadBackend, Outcome::Dropped)
        + counters.of(Reason::Reused, Outcome::Dropped)
}
