//! The takeover from map layout v1: a directory with links, and maps of v1's shape.

use super::agent::Agent;
use super::node::{Node, ifindex, link, run};
use aya::Pod;
use aya::maps::{Array, HashMap, Map, MapData};
use epguard::kernel::datapath::{Hook, Hooks, netns_cookie};
use epguard::kernel::maps::{Writer, show_mode};
use epguard::shared::clock::boot_ns;
use epguard_common::{Addr, DenialKey, Slot, Uid, Vip};
use epguard_core::state::Tables;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const X: Addr = Addr::v4([10, 9, 0, 9]);
const DEAD: Uid = Uid { octets: [0xdd; 16] };
const SLOT: Slot = Slot { number: 0x8007 };
const VIP: Vip = Vip {
    addr: Addr::v4([10, 96, 0, 1]),
    port: 80,
    protocol: 6,
    reserved: 0,
};
const TARGET: DenialKey = DenialKey {
    addr: X,
    slot: SLOT,
    port: 8080,
    protocol: 6,
    reserved: [0; 3],
};

/// Maps that are taken over: type, and octets of a key and a value.
const SHAPES: [(&str, &str, u32, u32); 6] = [
    ("VIEW", "array", 4, 40),
    ("CONFIG", "array", 4, 68),
    ("SUSPECTS", "hash", 16, 48),
    ("SERVICES", "hash", 20, 2),
    ("DENIED", "hash", 24, 80),
    ("TERMINATED", "hash", 16, 64),
];

/// An interface with links of v1, and an agent of v1 that denied one endpoint and one IP, and was just killed.
struct V1 {
    node: Node,
    directory: PathBuf,
    lease: u64,
    links: [(u64, u64); 2],
}

impl V1 {
    fn killed() -> Self {
        let node = Node::new();
        node.load(Hooks::Tcx).hook(ifindex("pod"), "pod").unwrap();
        let links = Hook::ALL.map(|hook| link(&node.pin(hook)));
        let directory = node.pins().join("v1");
        fs::rename(node.pins().join("v2"), &directory).unwrap();
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if !path.is_dir() {
                fs::remove_file(path).unwrap();
            }
        }
        for (name, kind, key, value) in SHAPES {
            make(&directory.join(name), name, kind, key, value);
        }
        let lease = boot_ns() + 120_000_000_000;
        let v1 = Self {
            node,
            directory,
            lease,
            links,
        };
        v1.fill();
        v1
    }

    fn fill(&self) {
        let mut view = [0u8; 40];
        view[..8].copy_from_slice(&self.lease.to_ne_bytes());
        self.set("VIEW", view);
        let mut config = [0u8; 68];
        // Everything enforced, but `reused` since it was wrong.
        for (at, mode) in [2u32, 2, 1, 1, 2, 2, 2, 1, 2].into_iter().enumerate() {
            config[4 * at..][..4].copy_from_slice(&mode.to_ne_bytes());
        }
        self.set("CONFIG", config);
        let mut suspect = [0u8; 48];
        suspect[..16].fill(0xdd);
        suspect[16] = 1;
        self.put("SUSPECTS", X, suspect);
        self.put("SERVICES", VIP, SLOT.number.to_ne_bytes());
        let mut denial = [0u8; 80];
        denial[..16].fill(0xdd);
        (denial[48], denial[52], denial[56]) = (1, 2, 2);
        self.put("DENIED", TARGET, denial);
        self.put("TERMINATED", X, terminated(0));
    }

    fn map<M: TryFrom<Map, Error: std::fmt::Debug>>(&self, name: &str, kind: impl Fn(MapData) -> Map) -> M {
        kind(MapData::from_pin(self.directory.join(name)).unwrap())
            .try_into()
            .unwrap()
    }

    fn set<V: Pod>(&self, name: &str, value: V) {
        let mut map: Array<MapData, V> = self.map(name, Map::Array);
        map.set(0, value, 0).unwrap();
    }

    fn put<K: Pod, V: Pod>(&self, name: &str, key: K, value: V) {
        let mut map: HashMap<MapData, K, V> = self.map(name, Map::HashMap);
        map.insert(key, value, 0).unwrap();
    }

    /// As an agent of this layout that starts here.
    fn with_writer(&self, work: impl FnOnce(&mut epguard::kernel::datapath::Datapath, &mut Writer)) {
        let mut datapath = self.node.load(Hooks::Tcx);
        let mut writer = Writer::new(&mut datapath.ebpf, netns_cookie().unwrap()).unwrap();
        writer.take_over_v1(&self.node.pins()).unwrap();
        work(&mut datapath, &mut writer);
    }
}

fn terminated(lifted_ns: u64) -> [u8; 64] {
    let mut raw = [0u8; 64];
    raw[..16].fill(0xdd);
    raw[24..32].copy_from_slice(&lifted_ns.to_ne_bytes());
    raw[56] = 2;
    raw
}

fn make(path: &Path, name: &str, kind: &str, key: u32, value: u32) {
    let entries = if kind == "array" { 1 } else { 16 };
    let shape = format!("type {kind} key {key} value {value} entries {entries} name {name}");
    let mut create = vec!["map", "create", path.to_str().unwrap()];
    create.extend(shape.split(' '));
    run("bpftool", &create);
}

fn assert_taken_over(tables: &Tables) {
    assert_eq!(tables.services, [(VIP, SLOT)].into());
    assert_eq!(tables.suspects[&X].dead_uid, DEAD);
    assert_eq!(tables.denied[&TARGET].dead_uid, DEAD);
    assert_eq!(tables.terminated[&X].dead, DEAD);
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn denials_numbers_modes_and_the_lease_of_layout_v1_are_restored_before_a_hook_is_attached() {
    let v1 = V1::killed();
    v1.with_writer(|_, writer| {
        assert_taken_over(writer.restored());
        assert_eq!(writer.lease_deadline_ns(), v1.lease);
        assert_eq!(writer.permitted(), 0xffff);
        assert_eq!(writer.demoted(), [epguard_common::Reason::Reused]);
    });
    super::maps::write(&v1.node, |writer| assert_taken_over(writer.restored()));
    let modes = show_mode(&v1.node.pins(), None).unwrap();
    let expected =
        "enforce\n  dead-backend enforce\n  reused observe\n  retired-backend observe\n  terminated enforce";
    assert_eq!(modes, expected);
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn links_of_layout_v1_get_the_new_programs_and_all_of_v1_is_removed() {
    let v1 = V1::killed();
    v1.with_writer(|datapath, writer| {
        let moved = Hook::ALL.map(|hook| link(&v1.node.pin(hook)));
        assert_eq!(
            moved, v1.links,
            "v1's programs go on until ours take their places"
        );
        let chain = datapath.hook(ifindex("pod"), "pod").unwrap();
        assert_eq!((chain.position, chain.before.len()), (1, 0), "{chain:?}");
        for (hook, (before, program)) in Hook::ALL.into_iter().zip(v1.links) {
            let (after, other) = link(&v1.node.pin(hook));
            assert_eq!(before, after);
            assert_ne!(program, other);
        }
        writer.end_v1().unwrap();
        datapath.remove_leftovers().unwrap();
        assert!(!v1.directory.exists());
    });
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_lift_by_programs_of_layout_v1_counts_for_this_layout() {
    let v1 = V1::killed();
    v1.with_writer(|_, writer| {
        v1.put("TERMINATED", X, terminated(7));
        assert!(writer.take_lifts().unwrap().is_empty());
        writer.end_v1().unwrap();
        let lifts = writer.take_lifts().unwrap();
        assert_eq!(lifts.len(), 1);
        assert_eq!((lifts[0].ip, lifts[0].at), (X, Duration::from_nanos(7)));
    });
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn v1_does_not_overwrite_values_written_after_the_takeover() {
    let v1 = V1::killed();
    v1.with_writer(|_, writer| {
        writer.renew_lease(v1.lease + 1).unwrap();
        assert!(writer.install(&Tables::default()).unwrap());
    });
    v1.with_writer(|_, writer| assert_eq!(writer.restored(), &Tables::default()));
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn an_agent_starts_beside_a_half_removed_directory_of_layout_v1() {
    let v1 = V1::killed();
    fs::remove_file(v1.directory.join("DENIED")).unwrap();
    v1.with_writer(|datapath, writer| {
        assert_eq!(writer.restored(), &Tables::default());
        datapath.hook(ifindex("pod"), "pod").unwrap();
        datapath.remove_leftovers().unwrap();
        assert!(!v1.directory.exists());
    });
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn an_agent_without_an_api_server_takes_over_from_layout_v1_and_removes_it() {
    let v1 = V1::killed();
    let mut agent = Agent::start(&v1.node, &["--mode", "enforce"]);
    let deadline = Instant::now() + Duration::from_mins(1);
    while v1.directory.exists() {
        assert!(Instant::now() < deadline, "v1 stays");
    }
    agent.wait_for("pod", |at| at.attached && at.position == 1);
    agent.end(libc::SIGKILL);
    for (hook, (before, program)) in Hook::ALL.into_iter().zip(v1.links) {
        let (after, other) = link(&v1.node.pin(hook));
        assert_eq!(before, after);
        assert_ne!(program, other);
    }
    let mut datapath = v1.node.load(Hooks::Tcx);
    let writer = Writer::new(&mut datapath.ebpf, netns_cookie().unwrap()).unwrap();
    assert_taken_over(writer.restored());
    assert_eq!(writer.lease_deadline_ns(), v1.lease);
}
