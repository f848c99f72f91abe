//! An orphan IP of the node, and packets to it.

use super::*;
use epguard::kernel::maps::{self, Writer};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// The last pod that had it is dead.
pub const X: Ipv4Addr = Ipv4Addr::new(10, 244, 1, 77);
/// Another next hop beside the peer.
const OTHER: &str = "10.9.0.3";
/// The last address of the node's range.
pub const RANGE: Addr = Addr::v4([10, 244, 1, 255]);
pub const DEAD: Uid = Uid { octets: [0xdd; 16] };

/// Tables with this orphan IP alone.
pub fn orphan(ip: Addr, mode: Mode, lifted: Option<Duration>) -> Tables {
    let orphan_ip = OrphanIp {
        dead: DEAD,
        mode,
        range: RANGE,
        lifted,
    };
    Tables {
        terminated: [(ip, orphan_ip)].into(),
        ..Tables::default()
    }
}

/// The node denies X, to which its way is the peer; the peer's way to X is the node.
pub fn vacate(node: &Node, datapath: &mut Datapath) -> Writer {
    std::fs::write("/proc/sys/net/ipv4/conf/all/forwarding", "1").unwrap();
    ip(&format!("route add default via {PEER}"));
    node.in_peer(|| ip(&format!("route add {X}/32 via {OWN}")));
    let mut writer = Writer::new(&mut datapath.ebpf).unwrap();
    writer
        .config
        .configure(Mode::Enforce, maps::default_modes(), false)
        .unwrap();
    writer
        .set_role(ifindex("pod"), Some(Role::Uplink.into()))
        .unwrap();
    writer
        .install(&orphan(Addr::v4(X.octets()), Mode::Enforce, None))
        .unwrap();
    writer
        .view
        .renew_lease(boot_ns() + 600_000_000_000)
        .unwrap();
    writer
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_way_of_its_own_to_an_orphan_ip_ends_the_denial_before_the_agent_knows_it() {
    let node = Node::new();
    let mut datapath = node.load(Hooks::Auto).with_xdp(Xdp::Driver).unwrap();
    let _writer = vacate(&node, &mut datapath);
    ip(&format!(
        "neighbour add {OTHER} lladdr 02:00:00:00:00:99 dev pod nud permanent"
    ));
    for xdp in [false, true] {
        if xdp {
            datapath.hook_xdp(ifindex("pod"), "pod").unwrap();
        } else {
            datapath.hook(ifindex("pod"), "pod").unwrap();
        }
        for (way, denied) in [
            (format!("10.244.0.0/16 via {PEER}"), 50),
            (format!("{X}/32 via {OTHER}"), 0),
            (format!("10.244.1.64/26 via {OTHER}"), 0),
            // As its range.
            (format!("{X}/32 via {PEER}"), 50),
        ] {
            ip(&format!("route add {way}"));
            assert_eq!(denied_of(&node, 50), denied, "{way}, XDP: {xdp}");
            if !way.contains("/16") {
                ip(&format!("route del {way}"));
            }
        }
        ip(&format!("route del 10.244.0.0/16 via {PEER}"));
    }
}

/// The peer sends this many datagrams to X: how many were denied.
pub fn denied_of(node: &Node, datagrams: u64) -> u64 {
    denied_while(node, datagrams, || {
        node.peer.send_to(b"datagram", (X, 9)).unwrap();
    })
}

/// The same, sent one by one by `send`.
pub fn denied_while(node: &Node, datagrams: u64, send: impl Fn()) -> u64 {
    let before = denied(node);
    (0..datagrams).for_each(|_| send());
    let deadline = Instant::now() + Duration::from_secs(2);
    // A packet too many may come a moment later than the last one that is right.
    while denied(node) - before < datagrams && Instant::now() < deadline {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(20));
    denied(node) - before
}

fn denied(node: &Node) -> u64 {
    maps::counters(&node.pins()).unwrap()[&(Reason::Terminated, Outcome::Dropped)].packets
}
