//! What an earlier process wrote stands until the next one knows better.

use super::*;
use aya::maps::{Array, HashMap, MapData, PerCpuArray, PerCpuValues};
use epguard::kernel::maps::{self, Writer};
use epguard_core::sorted_map::SortedMap;
use std::collections::BTreeSet;

const X: Addr = Addr::v4([10, 9, 0, 9]);
const SERVICE: ServiceNumber = ServiceNumber { number: 70_007 };

#[test]
#[ignore = "needs root: BPF"]
fn the_next_writer_restores_the_tables_the_lease_and_the_counters() {
    let node = Node::new();
    let lease = boot_ns() + 60_000_000_000;
    write(&node, |writer| {
        writer.install(&denying()).unwrap();
        writer.view.renew_lease(lease).unwrap();
    });
    count(&node, 7);
    write(&node, |writer| {
        assert_eq!(writer.restored(), &denying());
        assert_eq!(writer.view.written().lease_deadline_ns, lease);
        assert!(
            !writer.install(&denying()).unwrap(),
            "nothing is to be written"
        );
        assert!(writer.install(&Tables::default()).unwrap());
    });
    assert_eq!(counted(&node), 7);
    write(&node, |writer| {
        assert_eq!(writer.restored(), &Tables::default());
    });
}

#[test]
#[ignore = "needs root: BPF"]
fn the_first_write_removes_unknown_owners() {
    let node = Node::new();
    let owner = |octet| Owner {
        uid: Uid {
            octets: [octet; 16],
        },
        ..Owner::default()
    };
    let stays = Addr::v4([10, 9, 0, 1]);
    let goes = Addr::v4([10, 9, 0, 2]);
    let both = SortedMap::from_iter([(stays, owner(1)), (goes, owner(2))]);
    write(&node, |writer| {
        assert_eq!(
            writer.install_owners(&both, &BTreeSet::from([stays, goes]), usize::MAX),
            0
        );
    });
    let one = SortedMap::from_iter([(stays, owner(1))]);
    write(&node, |writer| {
        assert_eq!(writer.install_owners(&one, &BTreeSet::new(), usize::MAX), 0);
    });
    let map: HashMap<MapData, Addr, Owner> = maps::open(&node.pins(), "OWNERS").unwrap();
    let left: Vec<(Addr, Owner)> = map.iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(left, [(stays, owner(1))]);
}

#[test]
#[ignore = "needs root: BPF"]
fn a_demoted_reason_stays_demoted_for_the_next_writer_until_the_operator_sets_it() {
    let node = Node::new();
    let configure = |writer: &mut Writer| {
        writer
            .config
            .configure(Mode::Enforce, maps::default_modes(), false)
            .unwrap();
    };
    write(&node, |writer| {
        configure(writer);
        assert_eq!(writer.config.demoted(), []);
        writer.config.demote(Reason::Reused).unwrap();
    });
    write(&node, |writer| {
        configure(writer);
        assert_eq!(writer.config.demoted(), [Reason::Reused]);
    });
    maps::set_mode(&node.pins(), Mode::Enforce, Some(Reason::Reused)).unwrap();
    write(&node, |writer| {
        configure(writer);
        assert_eq!(writer.config.demoted(), []);
    });
}

#[test]
#[ignore = "needs root: BPF"]
fn a_denial_with_invalid_numbers_is_removed() {
    let node = Node::new();
    write(&node, |writer| assert!(writer.install(&denying()).unwrap()));
    let mut raw: HashMap<MapData, DenialKey, Keyed<DenialKey, RawDenial>> =
        maps::open(&node.pins(), "DENIED").unwrap();
    let scribbled = DenialKey {
        port: 1,
        ..target()
    };
    let garbage = RawDenial {
        reason: 0x77,
        uid_state: 0x77,
        ..RawDenial::default()
    };
    let entry = Keyed {
        key: scribbled,
        value: garbage,
    };
    raw.insert(scribbled, entry, 0).unwrap();
    write(&node, |writer| assert_eq!(writer.restored(), &denying()));
    let left: Vec<DenialKey> = raw.keys().collect::<Result<_, _>>().unwrap();
    assert_eq!(left, [target()]);
}

#[test]
#[ignore = "needs root: BPF"]
fn a_map_that_is_missing_or_of_another_layout_is_made_and_the_others_stay_as_one_of_a_later_agent_does()
 {
    let node = Node::new();
    write(&node, |writer| assert!(writer.install(&denying()).unwrap()));
    replace(&node, "SUSPECTS", "type hash key 16 value 8 entries 4");
    write(&node, |writer| {
        assert!(writer.restored().suspects.is_empty());
        assert_eq!(writer.restored().denied, denying().denied);
        assert!(writer.install(&denying()).unwrap());
    });
    let missing = node.pins().join("v3/CLIENTS");
    let later = node.pins().join("v3/LATER");
    std::fs::rename(&missing, &later).unwrap();
    write(&node, |writer| assert_eq!(writer.restored(), &denying()));
    assert!(missing.exists() && later.exists());
}

#[test]
#[ignore = "needs root: BPF"]
fn entries_that_a_full_map_refuses_are_counted_and_written_later() {
    let node = Node::new();
    let foreign = |port: usize| DenialKey {
        port: u16::try_from(port).unwrap(),
        ..DenialKey::default()
    };
    let redirecting = |port| {
        let tables = denying();
        let denial = Denial {
            action: Action::Redirect,
            ..*tables.denied.values().next().unwrap()
        };
        let target = DenialKey { port, ..target() };
        let backends = SortedMap::from_iter([(target, Backends::default())]);
        Tables {
            denied: SortedMap::from_iter([(target, denial)]),
            backends,
            ..tables
        }
    };
    write(&node, |writer| {
        assert!(writer.install(&redirecting(1)).unwrap());
        let mut map: HashMap<MapData, DenialKey, Keyed<DenialKey, Backends>> =
            maps::open(&node.pins(), "BACKENDS").unwrap();
        for port in 1..capacity::BACKENDS {
            map.insert(foreign(port), Keyed::default(), 0).unwrap();
        }
        assert!(writer.install(&redirecting(2)).unwrap());
        assert_eq!(writer.left_out(), 0, "it takes the place of another one");
        let mut both = redirecting(2);
        let other = redirecting(3);
        both.backends.extend(
            other
                .backends
                .iter()
                .map(|(key, backends)| (*key, *backends)),
        );
        both.denied
            .extend(other.denied.iter().map(|(key, denial)| (*key, *denial)));
        assert!(writer.install(&both).unwrap());
        assert_eq!(writer.left_out(), 1);
        map.remove(&foreign(1)).unwrap();
        assert!(writer.install(&both).unwrap(), "it is tried again");
        assert_eq!(writer.left_out(), 0);
        assert!(!writer.install(&both).unwrap());
    });
}

#[test]
#[ignore = "needs root: BPF"]
fn new_backends_wait_until_replies_are_translated_everywhere_and_known_ones_may_go() {
    let node = Node::new();
    let redirecting = |count| {
        let tables = denying();
        let denial = Denial {
            action: Action::Redirect,
            ..*tables.denied.values().next().unwrap()
        };
        let backends = (0..count).map(|port| Backend {
            port,
            ..Backend::default()
        });
        let backends = Backends::new(false, backends);
        let backends = SortedMap::from_iter([(target(), backends)]);
        Tables {
            denied: SortedMap::from_iter([(target(), denial)]),
            backends,
            ..tables
        }
    };
    write(&node, |writer| {
        let backends: HashMap<MapData, DenialKey, Keyed<DenialKey, Backends>> =
            maps::open(&node.pins(), "BACKENDS").unwrap();
        let written = || {
            backends
                .get(&target(), 0)
                .ok()
                .map(|entry| entry.value.count)
        };
        writer.translate_replies(false);
        assert!(writer.install(&redirecting(2)).unwrap(), "the denial");
        assert_eq!((written(), writer.left_out()), (None, 0));
        assert!(!writer.install(&redirecting(2)).unwrap());
        writer.translate_replies(true);
        assert!(
            writer.install(&redirecting(2)).unwrap(),
            "it is tried again"
        );
        assert_eq!(written(), Some(2));
        writer.translate_replies(false);
        assert!(writer.install(&redirecting(1)).unwrap());
        assert_eq!(
            written(),
            Some(1),
            "else flows would go on to what is dead by now"
        );
        writer.install(&redirecting(3)).unwrap();
        assert_eq!(
            written(),
            Some(1),
            "the interface of the new ones may have no hook yet"
        );
        writer.translate_replies(true);
        writer.install(&redirecting(3)).unwrap();
        assert_eq!(written(), Some(3));
    });
}

#[test]
#[ignore = "needs root: BPF"]
fn the_number_of_a_service_outlives_its_entry_and_the_writer() {
    let node = Node::new();
    write(&node, |writer| {
        assert_eq!(writer.view.written().last_service, 0);
        assert!(writer.install(&denying()).unwrap());
        assert!(writer.install(&Tables::default()).unwrap());
    });
    let mut view = view(&node);
    let unaware = View {
        suspects: 0,
        flows: 0,
        ..view.get(&0, 0).unwrap()
    };
    assert_eq!(unaware.last_service, SERVICE.number);
    view.set(0, unaware, 0).unwrap();
    write(&node, |writer| {
        assert_eq!(writer.view.written().last_service, SERVICE.number);
        assert!(writer.install(&denying()).unwrap());
    });
    write(&node, |writer| writer.view.renew_lease(7).unwrap());
    assert_eq!(view.get(&0, 0).unwrap().suspects, 1);
    // A VIEW of another layout is made anew, beside tables that stay.
    view.set(0, View::default(), 0).unwrap();
    write(&node, |writer| {
        assert_eq!(writer.view.written().last_service, SERVICE.number);
    });
}

#[test]
#[ignore = "needs root: BPF"]
fn no_earlier_denial_stands_once_the_modes_of_its_agent_are_unknown() {
    let node = Node::new();
    write(&node, |writer| {
        assert!(writer.install(&denying()).unwrap());
        writer.view.renew_lease(u64::MAX).unwrap();
    });
    replace(&node, "CONFIG", "type array key 4 value 72 entries 1");
    write(&node, |writer| {
        assert_eq!(writer.view.written().lease_deadline_ns, 0);
    });
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn other_abi_versions_are_removed_once_this_one_is_attached() {
    let node = Node::new();
    node.hooked(Hooks::Tcx);
    let own = node.pins().join("v3");
    let old = node.pins().join("v0");
    std::fs::rename(&own, &old).unwrap();
    let datapath = node.hooked(Hooks::Tcx);
    let chain = datapath.chain_if_hooked(ifindex("pod")).unwrap().unwrap();
    assert_eq!(chain.position, 1, "before the old programs: {chain:?}");
    assert!(own.exists() && old.exists());
    let removed = datapath.remove_leftovers().unwrap();
    assert!(!old.exists() && own.exists(), "{removed:?}");
    let chain = datapath.chain_if_hooked(ifindex("pod")).unwrap().unwrap();
    assert_eq!((chain.position, chain.before.len()), (1, 0));
}

/// Pins a map of another layout in place of ours.
fn replace(node: &Node, map: &str, layout: &str) {
    let pin = node.pins().join("v3").join(map);
    std::fs::remove_file(&pin).unwrap();
    let create = format!("map create {} {layout} name {map}", pin.display());
    run("bpftool", &create.split(' ').collect::<Vec<_>>());
}

pub fn view(node: &Node) -> Array<MapData, View> {
    maps::open(&node.pins(), "VIEW").unwrap()
}

pub fn write(node: &Node, work: impl FnOnce(&mut Writer)) {
    let mut datapath = node.load(Hooks::Auto);
    let mut writer = Writer::new(&mut datapath.ebpf).unwrap();
    work(&mut writer);
}

fn target() -> DenialKey {
    DenialKey {
        addr: X,
        service: SERVICE,
        port: 8080,
        protocol: 6,
        reserved: 0,
    }
}

fn denying() -> Tables {
    let vip = Vip {
        addr: Addr::v4([10, 96, 0, 1]),
        port: 80,
        protocol: 6,
        reserved: 0,
    };
    let denial = Denial {
        boot_id: Uid { octets: [0xb0; 16] },
        ..denial(Reason::Reused, UidState::Dead)
    };
    let suspect = Suspect {
        dead_uid: denial.dead_uid,
        flags: Suspect::DENIED,
        ..Suspect::default()
    };
    Tables {
        suspects: SortedMap::from_iter([(X, suspect)]),
        services: SortedMap::from_iter([(vip, SERVICE)]),
        denied: SortedMap::from_iter([(target(), denial)]),
        ..Tables::default()
    }
}

fn count(node: &Node, packets: u64) {
    let mut values = vec![Count::default(); aya::util::nr_cpus().unwrap()];
    values[0].packets = packets;
    let values = PerCpuValues::try_from(values).unwrap();
    let index = counter(Reason::Reused, Outcome::Draining);
    let mut counters: PerCpuArray<MapData, Count> = maps::open(&node.pins(), "COUNTERS").unwrap();
    counters.set(index, values, 0).unwrap();
}

fn counted(node: &Node) -> u64 {
    maps::counters(&node.pins()).unwrap()[&(Reason::Reused, Outcome::Draining)].packets
}
