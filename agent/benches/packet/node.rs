//! The node that packets meet: epguard's programs with maps filled for each state that is measured.

use crate::frames::{SYN, TCP, frame, packet, tcp};
use crate::kernel;
use crate::rig::Rig;
use crate::world::{DEAD_UID, ENFORCE, FRESH, PORT, SHOP, denial, suspect, target, vip};
use crate::xdp_filter::run;
use epguard_common::{Addr, Config, Gate, Mac, Mode, Reason, Suspect, Terminated, UidState, View, bucket};
use nix::sched::{CloneFlags, unshare};

/// Suspects of each IP version, each with a denial and a VIP that is affected; also the orphan IPs.
pub const STALE: u32 = 1_000;
/// Addresses of each IP version that nothing is known about.
pub const OTHERS: u32 = 65_536;

const LOOPBACK: u32 = 1;
/// `struct sk_buff` begins with two links, and then the device.
const DEVICE_AT: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    V4,
    V6,
}

/// Addresses of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// To an address that nothing is wrong with.
    Other,
    /// To a suspect with a denial, or to an orphan IP.
    Stale,
    /// To a suspect, of a Service that has no denial for it.
    Spared,
    /// Where packets come from.
    Client,
}

/// State of the maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Nothing is stale in the cluster.
    Idle,
    Observe,
    Enforce,
    /// Enforced, and the node has orphan IPs, too.
    Orphans,
    /// Enforced, and what the programs read as a packet's conntrack entry is none.
    Contradicted,
}

impl Destination {
    pub const fn count(self) -> u32 {
        match self {
            Self::Other | Self::Client => OTHERS,
            Self::Stale => STALE,
            Self::Spared => 1,
        }
    }

    /// The address with this number.
    pub const fn address(self, family: Family, number: u32) -> Addr {
        let [.., high, low] = number.to_be_bytes();
        let net = match self {
            Self::Other => 245,
            Self::Stale => 246,
            Self::Client => 247,
            Self::Spared => 248,
        };
        match family {
            Family::V4 => Addr::v4([10, net, high, low]),
            Family::V6 => Addr::v6([0xfd, 0, 0, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, high, low]),
        }
    }
}

/// Gives this thread a node that forwards, with routes that lead off it.
pub fn enter() {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    for family in ["ipv4", "ipv6"] {
        std::fs::write(format!("/proc/sys/net/{family}/conf/all/forwarding"), "1").unwrap();
    }
    for arguments in
        ["link set lo up", "route add blackhole 10.240.0.0/12", "-6 route add blackhole fd00::/16"]
    {
        run("ip", &arguments.split(' ').collect::<Vec<_>>());
    }
}

/// The programs over maps in this state.
pub fn rig(state: State) -> Rig {
    let mut rig = match state {
        State::Contradicted => Rig::filled(kernel::load_reading(DEVICE_AT)),
        _ => Rig::new(),
    };
    if state == State::Idle {
        rig.set("GATE", Gate::EMPTY);
        rig.write_view(View { suspects: 0, ..FRESH });
        return rig;
    }
    let entries = 2 * STALE;
    for addr in stale() {
        rig.affect(&vip(addr, PORT, TCP), SHOP);
        let reused = denial(Reason::Reused, UidState::Dead);
        rig.deny(&target(addr, TCP), reused);
        if state == State::Orphans {
            rig.put_keyed("TERMINATED", &addr, orphan());
        }
    }
    for family in [Family::V4, Family::V6] {
        let addr = Destination::Spared.address(family, 0);
        rig.affect(&vip(addr, PORT, TCP), SHOP);
        renew(&mut rig, addr);
    }
    renew_suspects(&mut rig);
    let mac = Mac { sends: 1, ..Mac::default() };
    rig.put("MACS", &LOOPBACK, mac);
    rig.configure(Config {
        mode: if state == State::Observe { Mode::Observe } else { Mode::Enforce },
        ..ENFORCE
    });
    rig.write_view(View {
        suspects: entries,
        entry_at: u32::from(state == State::Contradicted),
        terminated: if state == State::Orphans { entries } else { 0 },
        ..FRESH
    });
    rig
}

/// Puts the suspects in with no events sent in this second.
pub fn renew_suspects(rig: &mut Rig) {
    stale().for_each(|addr| renew(rig, addr));
}

/// The same for one.
pub fn renew(rig: &mut Rig, addr: Addr) {
    rig.put_keyed("SUSPECTS", &addr, suspect(Suspect::DENIED));
}

/// The addresses of all suspects.
pub fn stale() -> impl Iterator<Item = Addr> {
    let of = |family| (0..STALE).map(move |number| Destination::Stale.address(family, number));
    of(Family::V4).chain(of(Family::V6))
}

fn orphan() -> Terminated {
    Terminated { dead_uid: DEAD_UID, mode: Mode::Enforce as u32, ..Terminated::default() }
}

/// A SYN to one address: to the first one, of the others, whose bucket in the gate is empty.
pub fn one(gate: &Gate, to: Destination, family: Family) -> Vec<u8> {
    let one = match to {
        Destination::Stale | Destination::Spared => to.address(family, 0),
        _ => quiet(gate, to, family),
    };
    syn(gate, one, family)
}

/// A SYN for a spreader: with 4 octets behind the packet.
pub fn spread(gate: &Gate, to: Destination, family: Family) -> Vec<u8> {
    [syn(gate, to.address(family, 0), family), vec![1, 2, 3, 4]].concat()
}

/// The first address whose bucket in the gate is empty.
fn quiet(gate: &Gate, of: Destination, family: Family) -> Addr {
    let mut addresses = (0..of.count()).map(|number| of.address(family, number));
    addresses.find(|addr| gate.buckets[bucket(addr.words())] == 0).unwrap()
}

/// Of the last 2 octets of the destination in the frame.
pub const fn offset(family: Family) -> usize {
    match family {
        Family::V4 => 14 + 18,
        Family::V6 => 14 + 38,
    }
}

/// To loopback's MAC, which is all zero, from a client that nothing is wrong with.
fn syn(gate: &Gate, addr: Addr, family: Family) -> Vec<u8> {
    let client = quiet(gate, Destination::Client, family);
    let mut frame = frame(&packet(addr, TCP, &tcp(PORT, SYN)));
    frame[..6].fill(0);
    match family {
        Family::V4 => frame[26..30].copy_from_slice(&client.octets[12..]),
        Family::V6 => frame[22..38].copy_from_slice(&client.octets),
    }
    frame
}
