//! Stale packets that a processor absorbs while the good traffic on it keeps 95 % of its rate.
//!
//! One thread makes requests to the live Service, and sends stale packets between them at rising
//! rates.

use super::bed::{Bed, STALE_SERVICE};
use super::filters::{Filter, orphan};
use super::loads::requests;
use super::{Setup, Stage};
use crate::bpf::{self, Kind, used};
use crate::programs::frames;
use aya_obj::generated::{XDP_FLAGS_SKB_MODE, bpf_attach_type};
use epguard::kernel::datapath::bpf::{Target, link_create};
use epguard_common::{Addr, Mode};
use epguard_lab::figures::{Row, Table, in_turns};
use std::net::SocketAddrV4;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

/// Stale packets for each second of processor time; 0 is the undisturbed rate.
const RATES: [u32; 6] = [0, 50_000, 100_000, 200_000, 400_000, 0];
/// The first interface of each network namespace.
const LOOPBACK: u32 = 1;
const SLOT: Duration = Duration::from_millis(50);
/// In a second. The kernel prepares for each burst: they are rare and long.
const BURSTS: u32 = 100;
/// Loss that the good traffic may have.
const LOSS: f64 = 0.05;

/// Name, setup, and the packet filter that it is compared with.
type Contender = (&'static str, Setup, Option<&'static str>);

const ENFORCE: Setup = Setup::Active(Mode::Enforce);
const PREROUTING: &str = "nftables set in prerouting";
const NETDEV: &str = "nftables set at netdev ingress";
const FORWARD: &str = "nftables set behind DNAT";
/// To orphan IPs: epguard drops where they leave, or by XDP where they come in.
const TO_ORPHANS: [Contender; 6] = [
    ("epguard, egress hook", ENFORCE, Some(FORWARD)),
    ("epguard, XDP", Setup::Xdp, Some(NETDEV)),
    (FORWARD, Setup::Filter(Filter::NftablesForward), None),
    (PREROUTING, Setup::Filter(Filter::Nftables), None),
    (NETDEV, Setup::Filter(Filter::NftablesNetdev), None),
    ("ipset in prerouting", Setup::Filter(Filter::Ipset), None),
];
/// To a Service that lists an IP which another pod has now: epguard drops at the egress hook.
const TO_SERVICE: [Contender; 2] = [
    ("epguard, egress hook", ENFORCE, Some(FORWARD)),
    (FORWARD, Setup::Filter(Filter::NftablesForward), None),
];

/// Tables of packets a second by setup.
pub(super) fn tables(stage: &mut Stage, rounds: u32) -> [Table; 2] {
    stage.bed.node().enter().unwrap();
    let orphans = (0..16).map(|number| SocketAddrV4::new(orphan(number * 50), 8080));
    let to_orphans = Generator::new(&stage.bed, orphans);
    let orphans = table(stage, rounds, "orphan IPs", &TO_ORPHANS, to_orphans);
    let to_service = Generator::new(&stage.bed, [STALE_SERVICE]);
    [
        orphans,
        table(
            stage,
            rounds,
            "a Service with a reused IP",
            &TO_SERVICE,
            to_service,
        ),
    ]
}

fn table(
    stage: &mut Stage,
    rounds: u32,
    to: &str,
    contenders: &[Contender],
    mut generator: Generator,
) -> Table {
    let samples = in_turns(rounds, contenders.len(), |row| {
        [absorbed(stage, contenders[row].1, &mut generator)]
    });
    let mut table = Table::new(format!(
        "Stale packets to {to} that cost the good traffic 5 % of its rate"
    ));
    for ((name, _, peer), [samples]) in contenders.iter().zip(samples) {
        let row = Row::new(*name, "1/s", samples);
        table
            .rows
            .push(peer.iter().fold(row, |row, peer| row.beside(peer)));
    }
    table
}

/// The rate at which the good traffic loses [`LOSS`]: its loss grows with the rate, by the
/// processor time of each packet.
fn absorbed(stage: &mut Stage, setup: Setup, generator: &mut Generator) -> f64 {
    stage.set(setup);
    let mut request = requests(&stage.bed);
    let before = stage.dropped();
    let mut sent = 0;
    let mut good = |rate: u32| {
        let burst = rate / BURSTS;
        let begun = used();
        let mut done = 0.0;
        let mut bursts = 0;
        loop {
            let elapsed = used().saturating_sub(begun);
            if elapsed >= SLOT {
                return done / elapsed.as_secs_f64();
            }
            if burst > 0 && elapsed.as_secs_f64() * f64::from(BURSTS) >= f64::from(bursts) {
                generator.send(stage, burst);
                (bursts, sent) = (bursts + 1, sent + u64::from(burst));
            }
            done += request();
        }
    };
    good(0);
    let rates = RATES.map(&mut good);
    let undisturbed = f64::midpoint(rates[0], rates[RATES.len() - 1]);
    // Least squares through the origin.
    let mut products = 0.0;
    let mut squares = 0.0;
    for (rate, good) in RATES.map(f64::from).into_iter().zip(rates) {
        products += rate * (1.0 - good / undisturbed);
        squares += rate * rate;
    }
    let dropped = stage.dropped() - before;
    let ours = matches!(setup, Setup::Active(_) | Setup::Xdp);
    // Packets of a new flow that come together may lose the race for their entry in conntrack.
    assert!(
        !ours || dropped * 100 > sent * 99,
        "{setup:?}: {dropped} of {sent} dropped"
    );
    LOSS * squares / products
}

/// Stale packets for the node's uplink.
struct Generator {
    frames: Vec<Vec<u8>>,
    next: usize,
    /// Passes all frames, for nodes without XDP.
    passing: OwnedFd,
    /// Keeps it attached to an interface without traffic. The kernel's dispatcher then knows the
    /// program already; else each test run would add and remove it there, and wait for RCU twice.
    _attached: OwnedFd,
}

impl Generator {
    /// UDP packets to these destinations, in turns. The calling thread is in the node's network
    /// namespace.
    fn new(bed: &Bed, to: impl IntoIterator<Item = SocketAddrV4>) -> Self {
        let mac = bed.node().mac("eth0").unwrap();
        let frames = to.into_iter().map(|to| frame(mac, to)).collect();
        let passing = bpf::empty(Kind::Xdp);
        let attached = link_create(
            passing.as_fd(),
            Target::Interface(LOOPBACK),
            bpf_attach_type::BPF_XDP,
            XDP_FLAGS_SKB_MODE,
        );
        Self {
            frames,
            next: 0,
            passing,
            _attached: attached.unwrap(),
        }
    }

    /// Sends this many packets to the next destination.
    fn send(&mut self, stage: &Stage, packets: u32) {
        let program = if stage.now == Setup::Xdp {
            stage.xdp()
        } else {
            self.passing.as_fd()
        };
        let (uplink, _) = stage.epguard.uplink();
        // The kernel uses a frame again as the node has left it: with a lower TTL, or after DNAT.
        for begun in (0..packets).step_by(bpf::FRAMES as usize) {
            bpf::receive(
                program,
                uplink,
                &self.frames[self.next],
                bpf::FRAMES.min(packets - begun),
            );
        }
        self.next = (self.next + 1) % self.frames.len();
    }
}

/// A frame of the least length without padding, with a UDP datagram without a checksum from a pod
/// of another node.
fn frame(mac: [u8; 6], to: SocketAddrV4) -> Vec<u8> {
    let to_ip = Addr::v4(to.ip().octets());
    let mut datagram = frames::udp(to.port());
    datagram.resize(26, 0);
    datagram[5] = 26;
    let mut frame = frames::frame(&frames::packet(to_ip, frames::UDP, &datagram));
    let header = frame[14..34].chunks(2);
    let sum: u32 = header
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    frame[24..26].copy_from_slice(&(!folded).to_be_bytes());
    frame[..6].copy_from_slice(&mac);
    frame
}
