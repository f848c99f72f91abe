//! Maps of Cilium's shapes, whose entries are written by hand.

use super::*;
use Verdict::Pass;
use aya::Pod;
use aya::maps::{HashMap, Map, MapData};
use epguard::kernel::cilium::{Cilium, prepare};
use epguard::kernel::conntrack::nfct_at;
use epguard::kernel::datapath::{Datapath, Hooks, Pins};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) const HASH: u32 = 1;
pub(super) const LRU: u32 = 9;
/// `BPF_F_NO_PREALLOC`.
pub(super) const ON_DEMAND: u32 = 1;
/// `BPF_F_NO_COMMON_LRU`.
pub(super) const PER_CPU: u32 = 2;

/// `BPF_F_RDONLY_PROG`, which Cilium does not set.
pub(super) const RDONLY_PROG: u32 = 128;

/// Name, type, size of keys and of values, and flags, as Cilium makes its maps by default.
pub(super) type Shape = (&'static str, u32, u32, u32, u32);
pub(super) const SHAPES: [Shape; 8] = [
    ("cilium_ct4_global", LRU, 14, 56, 0),
    ("cilium_ct_any4_global", LRU, 14, 56, 0),
    ("cilium_ct6_global", LRU, 38, 56, 0),
    ("cilium_ct_any6_global", LRU, 38, 56, 0),
    ("cilium_lb4_reverse_nat", HASH, 2, 6, ON_DEMAND),
    ("cilium_lb6_reverse_nat", HASH, 2, 18, ON_DEMAND),
    ("cilium_lb4_reverse_sk", LRU, 16, 8, 0),
    ("cilium_lb6_reverse_sk", LRU, 32, 20, 0),
];

/// Of `enum` `TUPLE_F_*`.
pub(super) const OUT: u8 = 0;
pub(super) const IN: u8 = 1;
pub(super) const SERVICE: u8 = 4;

/// A number whose octets differ.
pub(super) const REVERSAL: u16 = 0x0102;

/// What becomes of a packet that has no conntrack entry, and of one whose entry shows no
/// translation.
pub(super) type Verdicts = [Verdict; 2];
pub(super) const DENIED: Verdicts = [world::DENIED; 2];
pub(super) const NO_RECORD: Verdicts = [NO_CONNECTION, NO_INTENT];
/// Cilium's record shows an address that is no Service's.
pub(super) const NO_SERVICE: Verdicts = [NO_INTENT; 2];
pub(super) const NO_CONNECTION: Verdict = Pass(Reason::Nothing, Outcome::NoConnection);
pub(super) const NO_INTENT: Verdict = Pass(Reason::Nothing, Outcome::NoIntent);

pub(super) const PODS: [Addr; 2] = [REUSED, REUSED_V6];
/// After that time maps that Cilium has replaced are no longer looked up.
pub(super) const LATER: Duration = Duration::from_secs(61);

pub(super) fn globals() -> PathBuf {
    Path::new("/sys/fs/bpf/tc/globals").to_owned()
}

/// Pins a new map in place of the one that is there.
pub(super) fn pin((name, kind, key, value, flags): Shape) {
    let map = aya_obj::Map::new_from_params(kind, key, value, 64, flags);
    let map = MapData::create(map, "cilium", None).unwrap();
    unpin(name);
    map.pin(globals().join(name)).unwrap();
}

pub(super) fn unpin(name: &str) {
    let _ = fs::remove_file(globals().join(name));
}

pub(super) fn put<K: Pod, V: Pod>(map: &str, key: K, value: V) {
    let map = Map::from_map_data(MapData::from_pin(globals().join(map)).unwrap()).unwrap();
    let mut map: HashMap<MapData, K, V> = map.try_into().unwrap();
    map.insert(key, value, 0).unwrap();
}

/// The programs enforcing in the world of `world::fill`, with maps of Cilium's.
pub(super) struct Beside {
    pub(super) rig: Rig,
    pub(super) cilium: Cilium,
}

impl Beside {
    pub(super) fn new() -> Self {
        Self::with(&SHAPES)
    }

    pub(super) fn with(shapes: &[Shape]) -> Self {
        fresh_bpffs();
        fs::create_dir_all(globals()).unwrap();
        shapes.iter().copied().for_each(pin);
        let pin_dir = Path::new(PIN_DIR);
        Pins::make(pin_dir).unwrap();
        prepare(pin_dir).unwrap();
        let datapath = Datapath::load(pin_dir, Hooks::Auto, nfct_at().unwrap()).unwrap();
        let mut beside = Self {
            rig: Rig::filled(datapath),
            cilium: Cilium::new(&globals(), pin_dir),
        };
        beside.follow(Duration::ZERO);
        beside.enter_by(Role::Pod);
        beside
    }

    /// The role of the interface that packets of a test run enter by, which is `lo`.
    pub(super) fn enter_by(&mut self, role: Role) {
        self.rig
            .put_keyed("INTERFACES", &1_u32, RawRole::from(role));
    }

    /// As the agent does at each tick.
    pub(super) fn follow(&mut self, after: Duration) {
        let cilium = self.cilium.follow(Instant::now() + after).unwrap();
        self.rig.write_view(View {
            cilium: cilium.into(),
            ..FRESH
        });
    }

    /// Runs the packet of a connection to the pod.
    #[track_caller]
    pub(super) fn expect(&mut self, name: &str, pod: Addr, protocol: u8, verdicts: Verdicts) {
        let body = if protocol == TCP {
            tcp(PORT, SYN)
        } else {
            udp(PORT)
        };
        let frame = frame(&packet(pod, protocol, &body));
        let client = (client(pod), CLIENT_PORT);
        let direct = Tracked::translated(client, (pod, PORT), (pod, PORT), protocol);
        for (tracked, verdict) in [Tracked::NONE, direct].into_iter().zip(verdicts) {
            self.rig.tracked = Some(tracked);
            let name = format!("{name}: {pod:?} {protocol}");
            self.rig.expect(&name, &frame, verdict);
        }
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.cilium.names().collect()
    }

    pub(super) fn problems(&self) -> Vec<&str> {
        self.cilium.problems().collect()
    }
}

/// An entry of `struct ct_entry`, with other octets in all fields but one.
pub(super) fn entry(reversal: u16) -> [u8; 56] {
    let mut entry = [0x55; 56];
    entry[38..40].copy_from_slice(&reversal.to_be_bytes());
    entry
}

/// Writes what Cilium keeps of a connection: its addresses are reversed, its ports are not.
pub(super) fn connect(pod: Addr, protocol: u8, ports: (u16, u16), flags: u8, reversal: u16) {
    let (from, to) = (ports.0.to_be_bytes(), ports.1.to_be_bytes());
    let end: [u8; 6] = joined(&[&to, &from, &[protocol, flags]]);
    let kind = if protocol == TCP { "" } else { "_any" };
    if pod.is_v4() {
        let key: [u8; 14] = joined(&[&SRC_V4, &pod.octets[12..], &end]);
        put(&format!("cilium_ct{kind}4_global"), key, entry(reversal));
    } else {
        let key: [u8; 38] = joined(&[&SRC_V6, &pod.octets, &end]);
        put(&format!("cilium_ct{kind}6_global"), key, entry(reversal));
    }
}

fn joined<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    parts.concat().try_into().unwrap()
}

/// Writes the address of the pod's Service under this number.
pub(super) fn number(pod: Addr, reversal: u16, port: u16) {
    let addr = vip(pod, port, TCP).addr;
    let (number, port) = (reversal.to_be_bytes(), port.to_be_bytes());
    if pod.is_v4() {
        put(
            "cilium_lb4_reverse_nat",
            number,
            joined::<6>(&[&addr.octets[12..], &port]),
        );
    } else {
        put(
            "cilium_lb6_reverse_nat",
            number,
            joined::<18>(&[&addr.octets, &port]),
        );
    }
}

pub(super) fn each() -> impl Iterator<Item = (Addr, u8)> {
    PODS.into_iter()
        .flat_map(|pod| [TCP, UDP].map(|protocol| (pod, protocol)))
}
