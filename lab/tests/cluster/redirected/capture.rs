//! Denied packets at an interface of the operator's choice.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::thread;

use super::place::{ANNOTATION, connect, echo, stage_with};
use crate::stage::{ip, netns};
use epguard_common::{Outcome, Reason};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike as _};

const ETHERNET: usize = 14;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_denied_packet_leaves_unchanged_by_the_capture_interface() {
    let stage = stage_with(&[(ANNOTATION, "")]);
    let _stranger = echo(&stage, "B");
    let node = netns(&stage, "node-a");
    node.ip(&[
        "link add cap0 type veth peer name cap1",
        "link set cap1 up",
        "link set cap0 up",
    ])
    .unwrap();
    let shown = || stage.agent.dump().unwrap()["denied"][0]["action"].clone();
    assert_eq!(shown(), "drop");
    stage.agent.run("action capture=cap0").unwrap();
    assert_eq!(shown(), "capture");
    let unknown = stage.agent.run("action capture=cap7").unwrap_err();
    assert!(
        format!("{unknown:#}").contains("interface cap7"),
        "{unknown:#}"
    );

    let everything = node.run(all_packets).unwrap();
    let dead = ip(&stage, "A").to_string();
    let seen = thread::spawn(move || frame_to(&everything, &dead));
    let error = connect(&stage, "old/web").unwrap_err();
    let [source, destination] = seen.join().unwrap();
    println!("captured a SYN {source} -> {destination}; the client: {error}");
    assert_eq!(source, ip(&stage, "client").to_string());
    let captured = stage
        .counters()
        .unwrap()
        .of(Reason::Reused, Outcome::Captured);
    assert!(captured > 0, "{}", stage.counters().unwrap());
}

/// A packet socket that receives the packets of all interfaces.
fn all_packets() -> OwnedFd {
    let flags = SockFlag::SOCK_CLOEXEC;
    let packets = socket(
        AddressFamily::Packet,
        SockType::Raw,
        flags,
        SockProtocol::EthAll,
    )
    .unwrap();
    setsockopt(&packets, sockopt::ReceiveTimeout, &TimeVal::seconds(60)).unwrap();
    packets
}

/// Source and destination of the first TCP SYN to the address that is not on its way into the
/// node's own stack.
fn frame_to(socket: &OwnedFd, dead: &str) -> [String; 2] {
    let mut frame = [0; 2048];
    loop {
        let length = recv(socket.as_raw_fd(), &mut frame, MsgFlags::empty()).unwrap();
        let Some(packet) = frame[..length]
            .get(ETHERNET..)
            .filter(|packet| packet.len() >= 40)
        else {
            continue;
        };
        let address = |at: usize| {
            let octets: [u8; 4] = packet[at..at + 4].try_into().unwrap();
            std::net::Ipv4Addr::from(octets).to_string()
        };
        let ends = [address(12), address(16)];
        if packet[0] >> 4 == 4 && packet[9] == 6 && ends[1] == dead && packet[33] == 2 {
            return ends;
        }
    }
}
