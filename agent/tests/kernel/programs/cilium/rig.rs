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

/// How Cilium makes one of its maps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) name: &'static str,
    /// The map's type, as [`HASH`].
    pub(super) kind: u32,
    pub(super) key_size: u32,
    pub(super) value_size: u32,
    pub(super) flags: u32,
}

/// Cilium's maps with its default options.
pub(super) const SHAPES: [Shape; 8] = [
    lru("cilium_ct4_global", 14, 56),
    lru("cilium_ct_any4_global", 14, 56),
    lru("cilium_ct6_global", 38, 56),
    lru("cilium_ct_any6_global", 38, 56),
    hash_on_demand("cilium_lb4_reverse_nat", 2, 6),
    hash_on_demand("cilium_lb6_reverse_nat", 2, 18),
    lru("cilium_lb4_reverse_sk", 16, 8),
    lru("cilium_lb6_reverse_sk", 32, 20),
];

const fn lru(name: &'static str, key_size: u32, value_size: u32) -> Shape {
    Shape {
        name,
        kind: LRU,
        key_size,
        value_size,
        flags: 0,
    }
}

const fn hash_on_demand(name: &'static str, key_size: u32, value_size: u32) -> Shape {
    Shape {
        name,
        kind: HASH,
        key_size,
        value_size,
        flags: ON_DEMAND,
    }
}

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
pub(super) fn pin(shape: Shape) {
    let definition = aya_obj::Map::new_from_params(
        shape.kind,
        shape.key_size,
        shape.value_size,
        64,
        shape.flags,
    );
    let map = MapData::create(definition, "cilium", None).unwrap();
    unpin(shape.name);
    map.pin(globals().join(shape.name)).unwrap();
}

pub(super) fn unpin(name: &str) {
    let _ = fs::remove_file(globals().join(name));
}

pub(super) fn put<K: Pod, V: Pod>(map: &str, key: K, value: V) {
    let pinned = MapData::from_pin(globals().join(map)).unwrap();
    let mut entries: HashMap<MapData, K, V> =
        Map::from_map_data(pinned).unwrap().try_into().unwrap();
    entries.insert(key, value, 0).unwrap();
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
    let from = ports.0.to_be_bytes();
    let to = ports.1.to_be_bytes();
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
    let number = reversal.to_be_bytes();
    let port = port.to_be_bytes();
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
