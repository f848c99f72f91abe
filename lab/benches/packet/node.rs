//! The node that packets meet: epguard's programs with maps filled for each state that is measured,
//! and xdp-filter.

use crate::programs::frames::{SYN, TCP, frame, packet, tcp};
use crate::programs::kernel;
use crate::programs::rig::Rig;
use crate::programs::world::{DEAD_UID, ENFORCE, FRESH, PORT, SHOP, denial, suspect, target, vip};
use aya::maps::{Map, MapData, PerCpuHashMap};
use aya::programs::ProgramInfo;
use epguard_common::{
    Addr, Config, Gates, Hash, Mac, Mode, RawRole, Reason, Role, Suspect, Terminated, UidState,
    View,
};
use epguard_lab::process::output;
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, unshare};
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Command;

/// Suspects of each IP version, each with a denial and a VIP that is affected; also the orphan IPs.
const STALE: u16 = 1_000;

const LOOPBACK: u32 = 1;
/// `struct sk_buff` begins with two links, and then the device.
const DEVICE_AT: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    V4,
    V6,
}

/// Addresses of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Destination {
    /// To an address that nothing is wrong with, alone in its bucket of the gate.
    Other,
    /// To one that is in a bucket with a stale address.
    Shared,
    /// To a suspect with a denial, or to an orphan IP.
    Stale,
    /// To a suspect, of a Service that has no denial for it.
    Spared,
    /// Where packets come from.
    Client,
}

/// State of the maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
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
    /// The address with this number.
    pub(crate) const fn address(self, family: Family, number: u16) -> Addr {
        let [high, low] = number.to_be_bytes();
        let net = match self {
            Self::Other | Self::Shared => 245,
            Self::Stale => 246,
            Self::Client => 247,
            Self::Spared => 248,
        };
        match family {
            Family::V4 => Addr::v4([10, net, high, low]),
            Family::V6 => Addr::v6([0xfd, 0, 0, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, high, low]),
        }
    }

    /// The first address that is in such buckets of the gate.
    fn first(self, gates: &Gates, family: Family) -> Addr {
        let is_such = |addr: &Addr| {
            let in_first = gates.first.buckets[Hash::of(addr.words()).first()] != 0;
            match self {
                Self::Other | Self::Client => !in_first,
                Self::Shared => in_first && gates.flags_at(*addr) == 0,
                Self::Stale | Self::Spared => gates.flags_at(*addr) != 0,
            }
        };
        let mut addresses = (0..=u16::MAX).map(|number| self.address(family, number));
        addresses.find(is_such).unwrap()
    }
}

/// Gives this thread a node that forwards, with routes that lead off it.
pub(crate) fn enter() {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    for family in ["ipv4", "ipv6"] {
        std::fs::write(format!("/proc/sys/net/{family}/conf/all/forwarding"), "1").unwrap();
    }
    for arguments in [
        "link set lo up",
        "link add uplink type veth peer name outside",
        "link set uplink up",
        "link set outside up",
        "address add 10.99.0.2/24 dev uplink",
        "-6 address add fd99::2/64 dev uplink nodad",
        "route add 10.240.0.0/12 via 10.99.0.1",
        "-6 route add fd00::/16 via fd99::1",
    ] {
        run("ip", arguments);
    }
}

/// The programs over maps in this state.
pub(crate) fn rig(state: State) -> Rig {
    let mut rig = match state {
        State::Contradicted => Rig::filled(kernel::load_reading(DEVICE_AT)),
        _ => Rig::new(),
    };
    if state == State::Idle {
        rig.set_gates(&Gates::EMPTY);
        rig.write_view(View {
            suspects: 0,
            ..FRESH
        });
        return rig;
    }
    let entries = 2 * u32::from(STALE);
    for addr in [Family::V4, Family::V6].into_iter().flat_map(stale) {
        rig.affect(&vip(addr, PORT, TCP), SHOP);
        let reused = denial(Reason::Reused, UidState::Dead);
        rig.deny(&target(addr, TCP), reused);
        if state == State::Orphans {
            let orphan = Terminated {
                dead_uid: DEAD_UID,
                mode: Mode::Enforce as u32,
                ..Terminated::default()
            };
            rig.put_keyed("TERMINATED", &addr, orphan);
        }
        renew_suspect(&mut rig, addr);
    }
    for family in [Family::V4, Family::V6] {
        let addr = Destination::Spared.address(family, 0);
        rig.affect(&vip(addr, PORT, TCP), SHOP);
        renew_suspect(&mut rig, addr);
    }
    let mac = Mac {
        sends: 1,
        ..Mac::default()
    };
    rig.put("MACS", &LOOPBACK, mac);
    let uplink = if_nametoindex("uplink").unwrap();
    rig.put_keyed("INTERFACES", &uplink, RawRole::from(Role::Uplink));
    rig.configure(Config {
        mode: if state == State::Observe {
            Mode::Observe
        } else {
            Mode::Enforce
        },
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

/// Puts a suspect in with no events sent in this second.
pub(crate) fn renew_suspect(rig: &mut Rig, addr: Addr) {
    rig.put_keyed("SUSPECTS", &addr, suspect(Suspect::DENIED));
}

/// The addresses of all suspects.
fn stale(family: Family) -> impl Iterator<Item = Addr> {
    (0..STALE).map(move |number| Destination::Stale.address(family, number))
}

/// A SYN to loopback's MAC, which is all zero, from a client that nothing is wrong with.
pub(crate) fn frame_to(gates: &Gates, to: Destination, family: Family) -> Vec<u8> {
    let client = Destination::Client.first(gates, family);
    let mut frame = frame(&packet(to.first(gates, family), TCP, &tcp(PORT, SYN)));
    frame[..6].fill(0);
    match family {
        Family::V4 => frame[26..30].copy_from_slice(&client.octets[12..]),
        Family::V6 => frame[22..38].copy_from_slice(&client.octets),
    }
    frame
}

/// xdp-filter of xdp-tools, loaded by its own command and with entries in its own maps: it drops
/// packets to the stale addresses. None if it is not installed.
pub(crate) fn xdp_filter() -> Option<OwnedFd> {
    Command::new("xdp-filter").arg("help").output().ok()?;
    kernel::fresh_bpffs();
    run("ip", "link add filtered type veth");
    run(
        "xdp-filter",
        "load --mode skb --features ipv4,ipv6 --policy allow filtered",
    );
    let octets = |addr: Addr| match addr.ip() {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(_) => unreachable!("of IPv4"),
    };
    fill("filter_ipv4", Family::V4, octets);
    fill("filter_ipv6", Family::V6, |addr| addr.octets);
    let program =
        ProgramInfo::from_pin("/sys/fs/bpf/xdp-filter/programs/filtered/xdpfilt_alw_ip").unwrap();
    Some(program.fd().unwrap().as_fd().try_clone_to_owned().unwrap())
}

/// Adds the first stale address by the command, and the others with the same value.
fn fill<K: aya::Pod>(map: &str, family: Family, key: impl Fn(Addr) -> K) {
    let mut addresses = stale(family);
    let first = addresses.next().unwrap();
    run("xdp-filter", &format!("ip --mode dst {}", first.ip()));
    let data = MapData::from_pin(format!("/sys/fs/bpf/xdp-filter/{map}")).unwrap();
    let mut map: PerCpuHashMap<_, K, u64> = Map::PerCpuHashMap(data).try_into().unwrap();
    let values = map.get(&key(first), 0).unwrap();
    for other in addresses {
        map.insert(key(other), values.to_vec().try_into().unwrap(), 0)
            .unwrap();
    }
}

fn run(program: &str, arguments: &str) {
    output(Command::new(program).args(arguments.split(' '))).unwrap();
}
