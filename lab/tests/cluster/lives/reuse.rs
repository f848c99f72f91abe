//! An IP is reused, by a pod or behind a link that is made again under its old name or renamed at
//! once, and no API object shows it. None of its new holder's packets is denied.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::thread::sleep;
use std::time::Duration;

use super::pelting::{Catching, Pelting};
use crate::links::await_hooks;
use crate::stage::{self, dropped, netns, until};
use epguard_lab::net::NetNs;
use epguard_lab::scenario::format::{PodEvent, Runs};
use epguard_lab::scenario::stage::Stage;
use epguard_lab::scenario::variant::Variant;

/// The agent when the IP gets its new holder.
#[derive(Clone, Copy, Debug)]
enum Agent {
    Running,
    JustKilled,
    JustStarting,
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn an_unpublished_owner_of_an_address_is_never_denied_over_150_runs_of_ipv4_and_50_of_ipv6() {
    // Fewer of IPv6: a new interface takes up to a second until it answers neighbour solicitations.
    for (family, runs) in Variant::all(&Runs::default()).into_iter().zip([150, 50]) {
        let mut stage = stage(family, runs);
        let denied_before: u64 = (0..runs).map(|run| hand_on(&mut stage, run)).sum();
        println!(
            "{family}: {runs} runs, {denied_before} packets denied while nobody held the IP, 0 of its new holder's"
        );
        assert!(
            denied_before >= runs as u64,
            "the IPs were not even denied before"
        );
    }
}

fn stage(variant: Variant, runs: usize) -> Stage {
    let mut pods = String::new();
    for run in 0..runs {
        let _ = writeln!(pods, "  A{run}: {{is: old/a-{run}, ip: X{}}}", run % 50);
        let _ = writeln!(pods, "  B{run}: {{is: new/b-{run}, ip: X{}}}", run % 50);
    }
    pods.push_str("  far: {is: shop/far, node: node-b}\n");
    stage::stage_as(
        &format!("agent: {{mode: enforce}}\npods:\n{pods}steps:\n  - pods: [far starts]\n"),
        variant,
    )
}

/// Names of the link of a holder that the CNI does not know: that of the one before, or a new one
/// right after it was made.
const LINK: &str = "holder";
const RENAMED: &str = "renamed";

/// As the lab's point-to-point CNI.
const HOST_MAC: &str = "ee:ee:ee:ee:ee:ee";

/// Makes a network namespace with the IP, behind a veth, and the node's route to it.
fn plug(node: &NetNs, is_renamed: bool, ip: IpAddr) -> NetNs {
    let holder = NetNs::new("holder").unwrap();
    let peer = holder.name();
    node.ip(&[format!(
        "link add {LINK} address {HOST_MAC} type veth peer name eth0 netns {peer}"
    )])
    .unwrap();
    let sandbox = [
        "link set lo up".to_owned(),
        format!("address add {ip} dev eth0"),
        "link set eth0 up".to_owned(),
        format!("neighbour add 169.254.1.1 lladdr {HOST_MAC} dev eth0 nud permanent"),
        "route add default via 169.254.1.1 dev eth0 onlink".to_owned(),
    ];
    holder.ip(&sandbox).unwrap();
    let route = |link| format!("route replace {ip} dev {link} scope link");
    node.ip(&[format!("link set {LINK} up"), route(LINK)])
        .unwrap();
    if is_renamed {
        node.ip(&[
            format!("link set {LINK} down name {RENAMED} up"),
            route(RENAMED),
        ])
        .unwrap();
    }
    holder
}

/// A dies, B gets its IP. Returns the number of packets denied while no pod had it.
fn hand_on(stage: &mut Stage, run: usize) -> u64 {
    let agent = [
        Agent::Running,
        Agent::Running,
        Agent::JustKilled,
        Agent::JustStarting,
    ][run % 4];
    let node = netns(stage, "node-a").clone();
    let speaks_first = fastrand::bool();
    let a = format!("A{run}");
    let b = format!("B{run}");
    let ip = stage::ip(stage, &a);
    stage.cluster.pod_event(&a, PodEvent::Starts).unwrap();
    stage.cluster.pod_event(&a, PodEvent::Fails).unwrap();
    stage.catch_up().unwrap();
    stage.agent.await_orphan_ip(ip).unwrap();
    let before = dropped(stage);
    let pelting = Pelting::from_far(stage, ip, Duration::from_micros(300));
    until(
        &format!("run {run}: packets to {ip}, which nobody has, are denied"),
        || dropped(stage) > before,
    );
    match agent {
        Agent::Running => {}
        Agent::JustKilled => stage.agent.kill(),
        Agent::JustStarting => {
            stage.agent.kill();
            stage.agent.start_again().unwrap();
        }
    }
    sleep(Duration::from_micros(fastrand::u64(0..30_000)));
    let link = match run % 3 {
        1 if ip.is_ipv4() => Some(LINK),
        2 if ip.is_ipv4() => Some(RENAMED),
        _ => None,
    };
    let holder = match link {
        None => {
            stage.cluster.pod_event(&b, PodEvent::Plugged).unwrap();
            netns(stage, &b).clone()
        }
        Some(link) => plug(&node, link == RENAMED, ip),
    };
    let denied = dropped(stage) - before;
    let catching = Catching::start(&holder, ip);
    if speaks_first {
        says_hello(stage, &holder, ip);
    }
    sleep(Duration::from_millis(20));
    // The pod's own interface may need a moment; after the first datagram that arrives, all do.
    let caught = catching.wait(|numbers| !numbers.is_empty());
    let Some(&first) = caught.first() else {
        panic!(
            "run {run}, {agent:?}, {link:?}, speaks first {speaks_first}: nothing arrived; counted {}",
            stage.counters().unwrap()
        )
    };
    let last = pelting.stop();
    // The last one may overtake others, on another CPU.
    let since_first =
        |numbers: &[u64]| numbers.iter().filter(|number| **number >= first).count() as u64;
    let caught = catching.wait(|numbers| since_first(numbers) == last - first);
    let missing: Vec<u64> = (first..last)
        .filter(|number| !caught.contains(number))
        .collect();
    assert!(
        missing.is_empty(),
        "{missing:?} are missing: run {run}, {agent:?}, {link:?}, speaks first {speaks_first}: of {first}..{last}"
    );
    assert_eq!(
        dropped(stage) - before,
        denied,
        "run {run}, {agent:?}, {link:?}, speaks first {speaks_first}: denied later"
    );
    if stage.agent.pid().is_none() {
        stage.agent.start_again().unwrap();
    }
    stage.catch_up().unwrap();
    if let Some(link) = link {
        await_hooks(&node, link);
        node.ip(&[format!("link delete {link}")]).unwrap();
    } else {
        stage.cluster.pod_event(&b, PodEvent::SandboxDown).unwrap();
    }
    stage.cluster.pod_event(&a, PodEvent::Gone).unwrap();
    denied
}

/// B makes a call and gets an answer.
fn says_hello(stage: &Stage, holder: &NetNs, ip: IpAddr) {
    let far = stage::ip(stage, "far");
    let socket = holder
        .run(|| std::net::UdpSocket::bind(SocketAddr::new(ip, 0)))
        .unwrap()
        .unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let answered = (0..300).any(|_| {
        let sent = socket.send_to(b"hello", SocketAddr::new(far, 8080));
        sent.is_ok() && socket.recv(&mut [0; 1500]).is_ok()
    });
    assert!(answered, "B was not answered");
}
