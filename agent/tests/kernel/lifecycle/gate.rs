//! GATE shows the addresses of all entries, for as long as there are such.

use super::maps::write;
use super::node::Node;
use aya::maps::{Array, Map, MapData};
use epguard::kernel::maps;
use epguard_common::{Addr, Gate, Mode, Slot, Suspect, Uid, Vip, bucket};
use epguard_core::state::{OrphanIp, Tables};

const SUSPECT: Addr = Addr::v4([10, 9, 0, 1]);
const SERVICE: Addr = Addr::v4([10, 96, 0, 1]);
const ORPHAN: Addr = Addr::v4([10, 9, 0, 9]);

fn gate(node: &Node) -> Gate {
    let map = maps::open(&node.pins(), "GATE").unwrap();
    let map: Array<MapData, Gate> = Map::Array(map).try_into().unwrap();
    map.get(&0, 0).unwrap()
}

fn bits(gate: &Gate) -> [u8; 3] {
    [SUSPECT, SERVICE, ORPHAN].map(|addr| gate.buckets[bucket(addr.words())])
}

fn tables() -> Tables {
    let mut tables = Tables::default();
    tables.suspects.insert(SUSPECT, Suspect::default());
    let vip = Vip {
        addr: SERVICE,
        port: 80,
        protocol: 6,
        reserved: 0,
    };
    tables.services.insert(vip, Slot { number: 0x8001 });
    let orphan_ip = OrphanIp {
        dead: Uid { octets: [0xdd; 16] },
        mode: Mode::Enforce,
        lifted: None,
    };
    tables.terminated.insert(ORPHAN, orphan_ip);
    tables
}

#[test]
#[ignore = "needs root: BPF"]
fn the_gate_shows_each_entry_until_it_is_removed() {
    let node = Node::new();
    write(&node, |writer| {
        writer.install(&tables()).unwrap();
        assert_eq!(
            bits(&gate(&node)),
            [Gate::SUSPECT, Gate::SERVICE, Gate::TERMINATED]
        );
        writer.install(&Tables::default()).unwrap();
        assert_eq!(bits(&gate(&node)), [0; 3]);
        assert_eq!(gate(&node).valid, 1);
    });
}

#[test]
#[ignore = "needs root: BPF"]
fn the_next_writer_shows_what_the_last_one_left() {
    let node = Node::new();
    write(&node, |writer| {
        writer.install(&tables()).unwrap();
    });
    // As if an agent that does not know the gate had run in between.
    let map = maps::open(&node.pins(), "GATE").unwrap();
    let mut map: Array<MapData, Gate> = Map::Array(map).try_into().unwrap();
    map.set(0, Gate::EMPTY, 0).unwrap();
    write(&node, |_| {
        assert_eq!(
            bits(&gate(&node)),
            [Gate::SUSPECT, Gate::SERVICE, Gate::TERMINATED]
        );
    });
}
