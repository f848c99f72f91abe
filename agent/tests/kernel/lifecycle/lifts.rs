//! Packets from an orphan IP: the kernel's map records them, and no writer drops the record.

use super::maps::write;
use super::orphan_ip::{DEAD, orphan};
use super::*;
use aya::maps::{HashMap, MapData};
use epguard::kernel::maps::{self, Lift};
use std::time::Duration;

const X: Addr = Addr::v4([10, 9, 0, 9]);
const AT: Duration = Duration::from_nanos(77);
const LIFT: Lift = Lift {
    ip: X,
    dead: DEAD,
    at: AT,
};

#[test]
#[ignore = "needs root: BPF"]
fn a_lift_is_returned_once_without_an_event_and_outlives_its_entry_until_then() {
    let node = Node::new();
    write(&node, |writer| {
        writer.install(&orphan_ip(Mode::Enforce, None)).unwrap();
        assert_eq!(writer.take_lifts().unwrap(), []);
        speaks(&node);
        assert_eq!(writer.take_lifts().unwrap(), [LIFT]);
        assert_eq!(writer.take_lifts().unwrap(), []);
        let heard = orphan_ip(Mode::Enforce, Some(AT));
        assert!(!writer.replaces_terminated(&heard) && !writer.install(&heard).unwrap());
        writer.install(&Tables::default()).unwrap();
        writer.install(&orphan_ip(Mode::Enforce, None)).unwrap();
        speaks(&node);
        writer.install(&Tables::default()).unwrap();
        assert_eq!(writer.take_lifts().unwrap(), [LIFT]);
    });
}

#[test]
#[ignore = "needs root: BPF"]
fn the_next_writer_restores_lifts_and_reads_those_since_its_start() {
    let node = Node::new();
    write(&node, |writer| {
        writer.install(&orphan_ip(Mode::Enforce, None)).unwrap();
    });
    write(&node, |writer| {
        speaks(&node);
        assert_eq!(writer.take_lifts().unwrap(), [LIFT]);
    });
    write(&node, |writer| {
        assert_eq!(writer.restored(), &orphan_ip(Mode::Enforce, Some(AT)));
        assert_eq!(writer.take_lifts().unwrap(), []);
    });
}

#[test]
#[ignore = "needs root: BPF"]
fn an_entry_that_is_written_again_stays_lifted() {
    let node = Node::new();
    write(&node, |writer| {
        writer.install(&orphan_ip(Mode::Enforce, None)).unwrap();
        speaks(&node);
        writer.install(&orphan_ip(Mode::Observe, None)).unwrap();
        assert_eq!(lifted_ns(&node), 77);
        assert_eq!(writer.take_lifts().unwrap(), [LIFT]);
        writer.install(&Tables::default()).unwrap();
        writer.install(&orphan_ip(Mode::Observe, Some(AT))).unwrap();
        assert_eq!(lifted_ns(&node), 77);
    });
}

fn orphan_ip(mode: Mode, lifted: Option<Duration>) -> Tables {
    orphan(X, mode, lifted)
}

/// As the programs do when they see a packet from X and the ring is full.
fn speaks(node: &Node) {
    let mut terminated = terminated(node);
    let mut entry = terminated.get(&X, 0).unwrap();
    entry.value.lifted_ns = 77;
    terminated.insert(X, entry, 0).unwrap();
}

fn lifted_ns(node: &Node) -> u64 {
    terminated(node).get(&X, 0).unwrap().value.lifted_ns
}

fn terminated(node: &Node) -> HashMap<MapData, Addr, Keyed<Addr, Terminated>> {
    maps::open(&node.pins(), "TERMINATED").unwrap()
}
