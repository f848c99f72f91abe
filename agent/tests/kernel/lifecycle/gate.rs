//! GATE and `SECOND_GATE` show the addresses of all entries, for as long as there are such.

use super::maps::write;
use super::orphan_ip::orphan;
use super::*;
use aya::maps::{Array, HashMap, MapData};
use epguard::kernel::maps;

const SUSPECT: Addr = Addr::v4([10, 9, 0, 1]);
const SERVICE: Addr = Addr::v4([10, 96, 0, 1]);
const ORPHAN: Addr = Addr::v4([10, 9, 0, 9]);
const LIVE: Addr = Addr::v4([10, 9, 0, 2]);

const TABLES: [&str; 2] = ["GATE", "SECOND_GATE"];

fn table(node: &Node, name: &str) -> Array<MapData, Gate> {
    maps::open(&node.pins(), name).unwrap()
}

fn gates(node: &Node) -> Gates {
    let [first, second] = TABLES.map(|name| table(node, name).get(&0, 0).unwrap());
    Gates { first, second }
}

fn valid(node: &Node) -> u32 {
    gates(node).first.valid
}

/// Of each address: what the first table has, and what both have.
fn bits(gates: &Gates) -> [(u8, u8); 3] {
    [SUSPECT, SERVICE, ORPHAN].map(|addr| {
        let first = gates.first.buckets[Hash::of(addr.words()).first()];
        (first, gates.flags_at(addr))
    })
}

/// As [`bits`], if both tables have these.
fn both(bits: [u8; 3]) -> [(u8, u8); 3] {
    bits.map(|bits| (bits, bits))
}

fn tables() -> Tables {
    let mut tables = orphan(ORPHAN, Mode::Enforce, None);
    tables.suspects.insert(SUSPECT, Suspect::default());
    let vip = Vip {
        addr: SERVICE,
        port: 80,
        protocol: 6,
        reserved: 0,
    };
    tables.services.insert(vip, ServiceNumber { number: 1 });
    tables
}

#[test]
#[ignore = "needs root: BPF"]
fn the_gate_shows_each_entry_until_it_is_removed() {
    let node = Node::new();
    write(&node, |writer| {
        writer.install(&tables()).unwrap();
        assert_eq!(
            bits(&gates(&node)),
            both([Gate::SUSPECT, 0, Gate::TERMINATED])
        );
    });
    // As if an agent that does not know them had run in between.
    let Gates { first, second } = Gates::EMPTY;
    table(&node, "GATE").set(0, first, 0).unwrap();
    table(&node, "SECOND_GATE").set(0, second, 0).unwrap();
    write(&node, |writer| {
        let left = "the next writer shows what the last one left";
        assert_eq!(
            bits(&gates(&node)),
            both([Gate::SUSPECT, 0, Gate::TERMINATED]),
            "{left}"
        );
        writer.install(&Tables::default()).unwrap();
        assert_eq!(bits(&gates(&node)), both([0; 3]));
        assert_eq!(valid(&node), Gate::WRITTEN | Gate::HAS_SECOND);
    });
}

/// Flows to the suspect go to a live endpoint instead.
fn redirecting() -> Tables {
    let target = DenialKey {
        addr: SUSPECT,
        service: ServiceNumber { number: 1 },
        port: 80,
        protocol: 6,
        reserved: 0,
    };
    let live = Backend {
        addr: LIVE,
        port: 80,
        ..Backend::default()
    };
    let mut tables = Tables::default();
    tables.backends.insert(target, Backends::new(false, [live]));
    tables
}

fn flow_bits(node: &Node) -> [bool; 2] {
    let gates = gates(node);
    [SUSPECT, LIVE].map(|addr| gates.flags_at(addr) & Gate::FLOW != 0)
}

#[test]
#[ignore = "needs root: BPF"]
fn the_gate_shows_both_ends_of_redirected_flows_until_the_last_one_has_ended() {
    let node = Node::new();
    let flow = Flow {
        endpoint: SUSPECT,
        ..Flow::default()
    };
    let going_on = Redirected {
        used_ns: boot_ns(),
        ..Redirected::default()
    };
    write(&node, |writer| {
        writer.sweep_flows().unwrap();
        writer.install(&redirecting()).unwrap();
        assert_eq!(flow_bits(&node), [true; 2]);
        let mut map: HashMap<MapData, Flow, Keyed<Flow, Redirected>> =
            maps::open(&node.pins(), "FLOWS").unwrap();
        map.insert(flow, Keyed::new(flow, going_on), 0).unwrap();
        writer.install(&Tables::default()).unwrap();
        writer.sweep_flows().unwrap();
        assert_eq!(flow_bits(&node), [true; 2], "the flow outlives its denial");
        map.remove(&flow).unwrap();
        writer.install(&redirecting()).unwrap();
        writer.install(&Tables::default()).unwrap();
        assert_eq!(
            flow_bits(&node),
            [true; 2],
            "the programs may just have added one"
        );
        writer.sweep_flows().unwrap();
        assert_eq!(flow_bits(&node), [true; 2], "one may have moved meanwhile");
        writer.sweep_flows().unwrap();
        assert_eq!(flow_bits(&node), [false; 2]);
    });
}

#[test]
#[ignore = "needs root: BPF"]
fn replies_are_wanted_while_any_redirected_flow_goes_on_proven_or_not() {
    let flow = Flow {
        endpoint: SUSPECT,
        ..Flow::default()
    };
    for name in ["FLOWS", "OPENING"] {
        let node = Node::new();
        write(&node, |writer| {
            writer.sweep_flows().unwrap();
            assert!(!writer.redirects());
            writer.install(&redirecting()).unwrap();
            let going_on = Redirected {
                used_ns: boot_ns(),
                ..Redirected::default()
            };
            let mut map: HashMap<MapData, Flow, Keyed<Flow, Redirected>> =
                maps::open(&node.pins(), name).unwrap();
            map.insert(flow, Keyed::new(flow, going_on), 0).unwrap();
            writer.install(&Tables::default()).unwrap();
            writer.sweep_flows().unwrap();
            assert!(writer.redirects(), "{name}: the flow outlives its denial");
            map.remove(&flow).unwrap();
            writer.install(&redirecting()).unwrap();
            writer.install(&Tables::default()).unwrap();
            for _ in 0..2 {
                writer.sweep_flows().unwrap();
            }
            assert!(!writer.redirects(), "{name}");
        });
    }
}

#[test]
#[ignore = "needs root: BPF"]
fn while_flows_of_an_earlier_writer_may_go_on_the_gate_shows_none() {
    let node = Node::new();
    write(&node, |writer| {
        writer.sweep_flows().unwrap();
        writer.install(&redirecting()).unwrap();
        assert_eq!(valid(&node), Gate::VALID);
    });
    write(&node, |writer| {
        assert_eq!(valid(&node), Gate::WRITTEN | Gate::HAS_SECOND);
        writer.install(&Tables::default()).unwrap();
        assert_eq!(valid(&node), Gate::WRITTEN | Gate::HAS_SECOND);
        writer.sweep_flows().unwrap();
        assert_eq!(valid(&node), Gate::VALID);
    });
}

#[test]
#[ignore = "needs root: BPF"]
fn an_entry_is_not_written_while_a_table_cannot_show_it() {
    let node = Node::new();
    write(&node, |writer| {
        writer.install(&tables()).unwrap();
        let pin = node.pins().join("v3/SECOND_GATE");
        run(
            "bpftool",
            &["map", "freeze", "pinned", pin.to_str().unwrap()],
        );
        writer.install(&Tables::default()).unwrap();
        assert_eq!(
            bits(&gates(&node)),
            both([Gate::SUSPECT, 0, Gate::TERMINATED]),
            "what is shown too much harms nobody"
        );
        writer.install(&tables()).unwrap();
        assert_eq!(
            bits(&gates(&node)),
            both([Gate::SUSPECT, 0, Gate::TERMINATED])
        );
        let another = orphan(Addr::v4([10, 9, 0, 77]), Mode::Enforce, None);
        assert!(writer.install(&another).is_err());
    });
}
