//! A pod forges packets from an orphan IP. That can end the denial of this IP, and nothing else.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::stage::{ip, netns, stage, take_any_source, until, v4};
use epguard_common::{Outcome, Reason};
use epguard_lab::scenario::stage::Stage;
use epguard_lab::traffic::{Client, Forged};

const STORY: &str = "
agent: {mode: enforce}
pods:
  A: {is: old/a, ip: X}
  D: {is: old/d, ip: Y}
  evil: {is: evil/pod}
steps:
  - pods: [evil starts, A starts, D starts, A fails, D fails]
";

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn forged_packets_of_an_orphan_ip_lift_no_other_protection() {
    let mut stage = stage(STORY);
    let [x, y] = ["A", "D"].map(|pod| ip(&stage, pod));
    let is_denied = |stage: &Stage, ip: IpAddr| {
        let before = stage.counters().unwrap();
        send(stage, ip);
        let after = stage.counters().unwrap().since(&before);
        after.of(Reason::Terminated, Outcome::Dropped) > 0
    };
    until("X and Y denied", || {
        is_denied(&stage, x) && is_denied(&stage, y)
    });

    forge(&stage, x);
    sleep(Duration::from_millis(120));
    assert!(
        is_denied(&stage, x),
        "a node with strict reverse paths lets no forged packet through"
    );

    take_any_source(&stage);
    forge(&stage, x);
    let lifted = |stage: &Stage| {
        let dump = stage.agent.dump().unwrap();
        let entries = dump["terminated"].as_array().unwrap().clone();
        entries
            .iter()
            .any(|entry| entry["ip"] == x.to_string() && entry["lifted"] == true)
    };
    until("X lifted", || lifted(&stage));
    assert!(
        !is_denied(&stage, x),
        "whoever seems to speak is not denied"
    );
    // A denial counts as wrong only after netlink has reported what changed. Checks run every 10 s.
    let looked = Instant::now() + Duration::from_secs(25);
    while Instant::now() < looked {
        assert_unharmed(&stage);
        sleep(Duration::from_millis(200));
    }
    assert!(is_denied(&stage, y), "Y is nobody's still");

    // The next agent does not count the forged packets as a holder's either.
    stage.agent.kill();
    stage.agent.start_again().unwrap();
    stage.catch_up().unwrap();
    assert_unharmed(&stage);
    until("Y denied again", || is_denied(&stage, y));
}

#[track_caller]
fn assert_unharmed(stage: &Stage) {
    let status = stage.agent.status().unwrap();
    let log = stage.agent.log();
    assert!(!log.contains("wrong deny"), "{log}");
    assert!(status.demoted.is_empty(), "{status:?}");
}

fn send(stage: &Stage, ip: IpAddr) {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let socket = netns(stage, "client")
        .run(|| UdpSocket::bind(any))
        .unwrap()
        .unwrap();
    socket.send_to(b"datagram", (ip, 9)).unwrap();
}

/// From the pod `evil`, with the orphan IP as its source.
fn forge(stage: &Stage, source: IpAddr) {
    let [from, to] = [source, ip(stage, "client")].map(|ip| v4((ip, 9).into()));
    let forged = Forged {
        from,
        to,
        flags: 2,
        acknowledges: 0,
    };
    Client::new(netns(stage, "evil")).forge([forged]).unwrap();
}
