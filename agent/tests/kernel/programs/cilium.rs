//! Packets that Cilium has translated, by entries that are written by hand into maps of its shapes.

use super::frames::{SRC_V4, SRC_V6, SYN, TCP, UDP, frame, packet, tcp, udp};
use super::kernel::{PIN_DIR, fresh_bpffs};
use super::rig::Rig;
use super::tracked::Tracked;
use super::world::{self, CLIENT_PORT, FRESH, NO_PORT, OTHER_PORT, PORT, REUSED, REUSED_V6, vip};
use aya::Pod;
use aya::maps::{HashMap, Map, MapData};
use epguard::kernel::cilium::{Cilium, prepare};
use epguard::kernel::conntrack::nfct_at;
use epguard::kernel::datapath::{Datapath, Hooks, Pins};
use epguard_common::Verdict::{self, Pass};
use epguard_common::{Addr, Outcome, Reason, View};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const HASH: u32 = 1;
const LRU: u32 = 9;
/// `BPF_F_NO_PREALLOC`.
const ON_DEMAND: u32 = 1;
/// `BPF_F_NO_COMMON_LRU`.
const PER_CPU: u32 = 2;

/// Name, type, size of keys and of values, and flags, as Cilium makes its maps by default.
type Shape = (&'static str, u32, u32, u32, u32);
const SHAPES: [Shape; 8] = [
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
const OUT: u8 = 0;
const IN: u8 = 1;
const SERVICE: u8 = 4;

/// A number whose octets differ.
const REVERSAL: u16 = 0x0102;

/// What becomes of a packet that has no conntrack entry, and of one whose entry shows no translation.
type Verdicts = [Verdict; 2];
const DENIED: Verdicts = [world::DENIED; 2];
const NO_RECORD: Verdicts = [NO_CONNECTION, NO_INTENT];
/// Cilium's record shows an address that is no Service's.
const NO_SERVICE: Verdicts = [NO_INTENT; 2];
const NO_CONNECTION: Verdict = Pass(Reason::Nothing, Outcome::NoConnection);
const NO_INTENT: Verdict = Pass(Reason::Nothing, Outcome::NoIntent);

const PODS: [Addr; 2] = [REUSED, REUSED_V6];
/// After that time maps that Cilium has replaced are no longer looked up.
const LATER: Duration = Duration::from_secs(61);

fn globals() -> PathBuf {
    Path::new("/sys/fs/bpf/tc/globals").to_owned()
}

/// Pins a new map in place of the one that is there.
fn pin((name, kind, key, value, flags): Shape) {
    let map = aya_obj::Map::new_from_params(kind, key, value, 64, flags);
    let map = MapData::create(map, "cilium", None).unwrap();
    unpin(name);
    map.pin(globals().join(name)).unwrap();
}

fn unpin(name: &str) {
    let _ = fs::remove_file(globals().join(name));
}

fn put<K: Pod, V: Pod>(map: &str, key: K, value: V) {
    let map = Map::from_map_data(MapData::from_pin(globals().join(map)).unwrap()).unwrap();
    let mut map: HashMap<MapData, K, V> = map.try_into().unwrap();
    map.insert(key, value, 0).unwrap();
}

/// The programs enforcing in the world of `world::fill`, with maps of Cilium's.
struct Beside {
    rig: Rig,
    cilium: Cilium,
}

impl Beside {
    fn new() -> Self {
        Self::with(&SHAPES)
    }

    fn with(shapes: &[Shape]) -> Self {
        fresh_bpffs();
        fs::create_dir_all(globals()).unwrap();
        shapes.iter().copied().for_each(pin);
        let pin_dir = Path::new(PIN_DIR);
        Pins::make(pin_dir).unwrap();
        prepare(&globals(), pin_dir).unwrap();
        let datapath = Datapath::load(pin_dir, Hooks::Auto, nfct_at().unwrap()).unwrap();
        let mut beside = Self {
            rig: Rig::filled(datapath),
            cilium: Cilium::new(&globals(), pin_dir),
        };
        beside.follow(Duration::ZERO);
        beside
    }

    /// As the agent does at each tick.
    fn follow(&mut self, after: Duration) {
        let cilium = self.cilium.follow(Instant::now() + after).unwrap();
        self.rig.vouch(View {
            cilium: cilium.into(),
            ..FRESH
        });
    }

    /// Runs the packet of a connection to the pod.
    #[track_caller]
    fn expect(&mut self, name: &str, pod: Addr, protocol: u8, verdicts: Verdicts) {
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

    fn names(&self) -> Vec<&'static str> {
        self.cilium.names().collect()
    }

    fn problems(&self) -> Vec<&str> {
        self.cilium.problems().collect()
    }
}

fn client(pod: Addr) -> Addr {
    if pod.is_v4() {
        Addr::v4(SRC_V4)
    } else {
        Addr::v6(SRC_V6)
    }
}

/// An entry of `struct ct_entry`, with other octets in all fields but one.
fn entry(reversal: u16) -> [u8; 56] {
    let mut entry = [0x55; 56];
    entry[38..40].copy_from_slice(&reversal.to_be_bytes());
    entry
}

/// Writes what Cilium keeps of a connection: its addresses are reversed, its ports are not.
fn connect(pod: Addr, protocol: u8, ports: (u16, u16), flags: u8, reversal: u16) {
    let mut end = [0; 6];
    end[..2].copy_from_slice(&ports.1.to_be_bytes());
    end[2..4].copy_from_slice(&ports.0.to_be_bytes());
    end[4..].copy_from_slice(&[protocol, flags]);
    let kind = if protocol == TCP { "" } else { "_any" };
    if pod.is_v4() {
        let mut key = [0; 14];
        key[..4].copy_from_slice(&SRC_V4);
        key[4..8].copy_from_slice(&pod.octets[12..]);
        key[8..].copy_from_slice(&end);
        put(&format!("cilium_ct{kind}4_global"), key, entry(reversal));
    } else {
        let mut key = [0; 38];
        key[..16].copy_from_slice(&SRC_V6);
        key[16..32].copy_from_slice(&pod.octets);
        key[32..].copy_from_slice(&end);
        put(&format!("cilium_ct{kind}6_global"), key, entry(reversal));
    }
}

/// Writes the address of the pod's Service under this number.
fn number(pod: Addr, reversal: u16, port: u16) {
    let addr = vip(pod, port, TCP).addr;
    if pod.is_v4() {
        let mut service = [0; 6];
        service[..4].copy_from_slice(&addr.octets[12..]);
        service[4..].copy_from_slice(&port.to_be_bytes());
        put("cilium_lb4_reverse_nat", reversal.to_be_bytes(), service);
    } else {
        let mut service = [0; 18];
        service[..16].copy_from_slice(&addr.octets);
        service[16..].copy_from_slice(&port.to_be_bytes());
        put("cilium_lb6_reverse_nat", reversal.to_be_bytes(), service);
    }
}

fn each() -> impl Iterator<Item = (Addr, u8)> {
    PODS.into_iter()
        .flat_map(|pod| [TCP, UDP].map(|protocol| (pod, protocol)))
}

const PORTS: (u16, u16) = (CLIENT_PORT, PORT);

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_packet_that_cilium_has_translated_is_denied() {
    let mut beside = Beside::new();
    for (pod, protocol) in each() {
        number(pod, REVERSAL, PORT);
        beside.expect("no entry", pod, protocol, NO_RECORD);
        connect(pod, protocol, PORTS, OUT, REVERSAL);
        beside.expect("its entry", pod, protocol, DENIED);
    }
    beside.rig.vouch(FRESH);
    beside.expect("Cilium's maps are not read", REUSED, TCP, NO_RECORD);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn entries_of_other_connections_deny_nothing() {
    let mut beside = Beside::new();
    for (pod, protocol) in each() {
        number(pod, REVERSAL, PORT);
        connect(pod, protocol, PORTS, IN, REVERSAL);
        connect(pod, protocol, PORTS, SERVICE, REVERSAL);
        connect(pod, protocol, (CLIENT_PORT + 1, PORT), OUT, REVERSAL);
        connect(pod, protocol, (CLIENT_PORT, OTHER_PORT), OUT, REVERSAL);
        connect(pod, protocol, (PORT, CLIENT_PORT), OUT, REVERSAL);
        connect(pod, protocol ^ TCP ^ UDP, PORTS, OUT, REVERSAL);
        beside.expect("another one's", pod, protocol, NO_RECORD);
        // The next protocol starts with its own maps.
        SHAPES[..4].iter().copied().for_each(pin);
        beside.follow(LATER);
        beside.follow(LATER * 2);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn connections_without_a_translation_pass() {
    let mut beside = Beside::new();
    for (pod, protocol) in each() {
        connect(pod, protocol, PORTS, OUT, 0);
        beside.expect("to the pod itself", pod, protocol, NO_RECORD);
        connect(pod, protocol, PORTS, OUT, REVERSAL.swap_bytes());
        beside.expect("an unknown number", pod, protocol, NO_RECORD);
        number(pod, REVERSAL, NO_PORT);
        connect(pod, protocol, PORTS, OUT, REVERSAL);
        beside.expect("a port that is no Service's", pod, protocol, NO_SERVICE);
        number(pod, REVERSAL, PORT);
        beside.expect("the Service's", pod, protocol, DENIED);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn connections_in_a_replaced_map_are_denied_for_a_minute() {
    for replaced in [&SHAPES[..4], &SHAPES[4..6], &SHAPES[..6]] {
        let mut beside = Beside::new();
        for (pod, protocol) in each() {
            number(pod, REVERSAL, PORT);
            connect(pod, protocol, PORTS, OUT, REVERSAL);
        }
        replaced.iter().copied().for_each(pin);
        beside.follow(Duration::ZERO);
        for (pod, protocol) in each() {
            beside.expect("in the map before", pod, protocol, DENIED);
        }
        beside.follow(LATER);
        for (pod, protocol) in each() {
            beside.expect("forgotten", pod, protocol, NO_RECORD);
        }
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn an_entry_in_the_pinned_map_is_newer_than_one_in_the_map_before() {
    let mut beside = Beside::new();
    for (pod, protocol) in each() {
        number(pod, REVERSAL, PORT);
        connect(pod, protocol, PORTS, OUT, REVERSAL);
    }
    SHAPES[..4].iter().copied().for_each(pin);
    beside.follow(Duration::ZERO);
    for (pod, protocol) in each() {
        connect(pod, protocol, PORTS, OUT, 0);
        beside.expect("the port calls the pod itself now", pod, protocol, NO_RECORD);
        connect(pod, protocol, PORTS, OUT, REVERSAL);
        beside.expect("and the Service again", pod, protocol, DENIED);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_number_that_two_maps_give_to_two_services_denies_nothing() {
    let mut beside = Beside::new();
    for (pod, protocol) in each() {
        number(pod, REVERSAL, PORT);
        connect(pod, protocol, PORTS, OUT, REVERSAL);
    }
    SHAPES[4..6].iter().copied().for_each(pin);
    beside.follow(Duration::ZERO);
    for (pod, protocol) in each() {
        number(pod, REVERSAL, NO_PORT);
        beside.expect("one of them is denied", pod, protocol, NO_RECORD);
        number(pod, REVERSAL, PORT);
        beside.expect("both are the same", pod, protocol, DENIED);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_moment_without_a_pin_loses_no_connection() {
    let mut beside = Beside::new();
    number(REUSED, REVERSAL, PORT);
    connect(REUSED, TCP, PORTS, OUT, REVERSAL);
    unpin("cilium_ct4_global");
    beside.follow(Duration::ZERO);
    beside.expect("unpinned", REUSED, TCP, DENIED);
    pin(SHAPES[0]);
    beside.follow(Duration::ZERO);
    beside.expect("replaced", REUSED, TCP, DENIED);
    SHAPES.iter().for_each(|(name, ..)| unpin(name));
    beside.follow(LATER);
    beside.follow(LATER * 2);
    beside.expect("Cilium is gone", REUSED, TCP, NO_RECORD);
    assert_eq!(beside.names(), [""; 0]);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn maps_of_each_flag_are_read_that_cilium_has_an_option_for() {
    let other = SHAPES.map(|(name, kind, key, value, flags)| {
        let flags = if kind == LRU { PER_CPU } else { flags ^ ON_DEMAND };
        (name, kind, key, value, flags)
    });
    let mut beside = Beside::with(&other);
    for (pod, protocol) in each() {
        number(pod, REVERSAL, PORT);
        connect(pod, protocol, PORTS, OUT, REVERSAL);
        beside.expect("other flags", pod, protocol, DENIED);
    }
    // While epguard runs, they cannot change.
    pin(SHAPES[0]);
    let error = beside.cilium.follow(Instant::now()).unwrap_err();
    assert!(
        format!("{error:#}").contains("cilium_ct4_global has other flags than before"),
        "{error:#}"
    );
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_map_of_an_unknown_shape_is_a_problem_and_is_not_read() {
    let mut beside = Beside::with(&[]);
    assert_eq!(beside.names(), [""; 0]);
    for shape @ (name, kind, key, value, flags) in SHAPES {
        for wrong in [
            (
                name,
                kind ^ HASH ^ LRU,
                key,
                value,
                ON_DEMAND * u32::from(kind == LRU),
            ),
            (name, kind, key + 2, value, flags),
            (name, kind, key, value + 8, flags),
        ] {
            pin(wrong);
            beside.follow(Duration::ZERO);
            assert!(!beside.names().contains(&name), "{wrong:?}");
            assert_eq!(beside.problems().len(), 1, "{wrong:?}");
            let problem = beside.problems()[0];
            assert!(
                problem.starts_with(globals().join(name).to_str().unwrap())
                    && problem.contains("has another shape than in Cilium 1.14 to 1.21"),
                "{problem}"
            );
        }
        pin(shape);
        beside.follow(Duration::ZERO);
        assert_eq!(beside.problems(), [""; 0]);
    }
    assert_eq!(beside.names(), SHAPES.map(|(name, ..)| name));

    // The map before it is out of date some time later.
    number(REUSED, REVERSAL, PORT);
    connect(REUSED, TCP, PORTS, OUT, REVERSAL);
    pin(("cilium_ct4_global", LRU, 14, 64, 0));
    beside.follow(Duration::ZERO);
    beside.expect("Cilium's programs may still use it", REUSED, TCP, DENIED);
    beside.follow(LATER);
    beside.expect("they do not", REUSED, TCP, NO_RECORD);
    assert!(!beside.names().contains(&"cilium_ct4_global"));
}
