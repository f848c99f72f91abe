//! Places where a foreign program meets packets.

use super::rig::{
    Node, bpf, descriptor, halves, here, load, prog_array, put, reads_bit, run, survey, tail_calls,
};
use super::{EGRESS, INGRESS};
use epguard::kernel::neighbours::{Scanner, Use};
use std::collections::BTreeSet;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_filter_of_a_class_is_found() {
    let node = Node::new();
    let program = load("inclass", &reads_bit(16));
    let pin = node.pin(&program, "inclass");
    run("tc qdisc add dev pod root handle 1: htb default 1");
    run("tc class add dev pod parent 1: classid 1:1 htb rate 1gbit");
    run("tc class add dev pod parent 1:1 classid 1:2 htb rate 1gbit");
    run(&format!(
        "tc filter add dev pod parent 1:1 bpf direct-action object-pinned {}",
        pin.display()
    ));
    let found = survey(&BTreeSet::new());
    let bits = here(&found)
        .iter()
        .fold(0, |bits, found| bits | found.uses.tc_index.reads);
    assert_eq!(bits, 16, "{found:#?}");
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_filter_of_a_shared_block_is_found() {
    let node = Node::new();
    let program = load("inblock", &reads_bit(16));
    let pin = node.pin(&program, "inblock");
    run("tc qdisc add dev pod ingress_block 22 clsact");
    run(&format!(
        "tc filter add block 22 bpf direct-action object-pinned {}",
        pin.display()
    ));
    let found = survey(&BTreeSet::new());
    let bits = here(&found)
        .iter()
        .fold(0, |bits, found| bits | found.uses.tc_index.reads);
    assert_eq!(bits, 16, "{found:#?}");
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_known_program_that_enters_a_large_map_is_found_by_the_next_survey() {
    let node = Node::new();
    let array = descriptor(bpf(0, &mut [3, 4, 4, 2000]));
    let first = load("first", &tail_calls(&array));
    let reader = load("known", &reads_bit(4));
    node.attach(&first, INGRESS);
    let mut scanner = Scanner::new().unwrap();
    let mut reads = || {
        let found = scanner.survey(&BTreeSet::new()).unwrap().found;
        here(&found)[0].with_tail_calls.tc_index.reads
    };
    assert_eq!(reads(), 0);
    assert_eq!(reads(), 0);
    put(&array, 0, &reader);
    assert_eq!(reads(), 4);
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn harmless_programs_that_come_and_go_are_never_taken_for_users() {
    static STOP: AtomicBool = AtomicBool::new(false);
    static LOADED: AtomicUsize = AtomicUsize::new(0);
    let node = Node::new();
    let here_ns = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
    let churn = std::thread::spawn(move || {
        // SAFETY: moves only this thread.
        assert_eq!(unsafe { libc::setns(here_ns.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
        while !STOP.load(Ordering::Relaxed) {
            let array = prog_array();
            let (first, second) = (load("a", &tail_calls(&array)), load("b", &[number(), EXIT]));
            put(&array, 0, &second);
            let links = [INGRESS, EGRESS].map(|hook| link(&first, hook));
            LOADED.fetch_add(2, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(10));
            drop(links);
        }
    });
    let mut scanner = Scanner::new().unwrap();
    let (mut wrong, mut errors) = (0, Vec::new());
    for _ in 0..400 {
        match scanner.survey(&BTreeSet::new()) {
            Ok(survey) => {
                wrong += usize::from(
                    here(&survey.found)
                        .iter()
                        .any(|found| found.with_tail_calls == Use::UNKNOWN)
                        || survey
                            .found
                            .iter()
                            .any(|f| f.place.contains("tail call of a") && f.uses == Use::UNKNOWN),
                );
            }
            Err(error) => errors.push(format!("{error:#}")),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    STOP.store(true, Ordering::Relaxed);
    churn.join().unwrap();
    errors.dedup();
    println!(
        "400 surveys, {} programs: {wrong} take one for a user, errors {errors:?}",
        LOADED.load(Ordering::Relaxed)
    );
    drop(node);
    assert_eq!((wrong, errors.len()), (0, 0));
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn interfaces_that_come_and_go_fail_no_survey() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let node = Node::new();
    let ours = load("x", &reads_bit(1));
    node.attach(&ours, INGRESS);
    let here_ns = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
    let churn = std::thread::spawn(move || {
        // SAFETY: moves only this thread.
        assert_eq!(unsafe { libc::setns(here_ns.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
        while !STOP.load(Ordering::Relaxed) {
            run("ip link add v1 type veth peer name v2");
            run("tc qdisc add dev v1 clsact");
            run("tc qdisc add dev v2 root handle 1: htb");
            run("ip link del v1");
        }
    });
    let mut scanner = Scanner::new().unwrap();
    let mut errors = Vec::new();
    let begun = Instant::now();
    let mut surveys = 0;
    while begun.elapsed() < Duration::from_secs(8) {
        surveys += 1;
        if let Err(error) = scanner.survey(&BTreeSet::from([0])) {
            errors.push(format!("{error:#}"));
        }
    }
    STOP.store(true, Ordering::Relaxed);
    churn.join().unwrap();
    println!("{surveys} surveys, {} errors {:?}", errors.len(), errors.first());
    assert_eq!(errors.len(), 0);
}

fn number() -> epguard::kernel::neighbours::Insn {
    super::rig::insn(0xb7, 0, 0, 0, -1)
}

const EXIT: epguard::kernel::neighbours::Insn = super::rig::insn(0x95, 0, 0, 0, 0);

/// `BPF_LINK_CREATE`
fn link(program: &OwnedFd, hook: u32) -> OwnedFd {
    let _ = halves(0);
    descriptor(bpf(
        28,
        &mut [
            program.as_raw_fd().cast_unsigned(),
            super::rig::ifindex(),
            hook,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ],
    ))
}

/// What the kernel's verifier accepts.
fn reads_of(program: &[epguard::kernel::neighbours::Insn]) -> u16 {
    let node = Node::new();
    node.attach(&load("real", program), EGRESS);
    let found = survey(&BTreeSet::new());
    here(&found)[0].uses.tc_index.reads
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn the_packet_is_followed_through_a_slot_where_another_path_stores_an_octet() {
    use super::rig::insn;
    let program = [
        insn(0x61, 7, 1, 0, 0),
        insn(0x25, 7, 0, 2, 100),
        insn(0x7b, 10, 1, -24, 0),
        insn(0x05, 0, 0, 1, 0),
        insn(0x72, 10, 0, -24, 0),
        insn(0xb7, 0, 0, 0, -1),
        insn(0x25, 7, 0, 4, 100),
        insn(0x79, 6, 10, -24, 0),
        insn(0x61, 2, 6, 44, 0),
        insn(0x45, 2, 0, 1, 1),
        insn(0xb7, 0, 0, 0, 2),
        EXIT,
    ];
    assert_eq!(reads_of(&program) & 1, 1);
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn the_arguments_of_bpf_check_mtu_are_read() {
    use super::rig::insn;
    let program = [
        insn(0x61, 2, 1, 44, 0),
        insn(0x6a, 10, 0, -8, 0),
        insn(0x6b, 10, 2, -6, 0),
        insn(0xb7, 2, 0, 0, 0),
        insn(0xbf, 3, 10, 0, 0),
        insn(0x07, 3, 0, 0, -8),
        insn(0xb7, 4, 0, 0, 1),
        insn(0xb7, 5, 0, 0, 0),
        insn(0x85, 0, 0, 0, 163),
        EXIT,
    ];
    assert_eq!(reads_of(&program), u16::MAX);
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_program_that_replaces_the_only_one_during_a_survey_is_found_later() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let node = Node::new();
    // Programs of others on this machine do not count.
    let bpftool = std::process::Command::new("/usr/sbin/bpftool")
        .args(["prog", "list"])
        .output()
        .unwrap();
    let text = String::from_utf8(bpftool.stdout).unwrap();
    let own: BTreeSet<u32> = text
        .lines()
        .filter_map(|line| line.split(':').next()?.parse().ok())
        .collect();
    for n in 0..60 {
        run(&format!("ip link add p{n} type veth peer name q{n}"));
    }
    let here_ns = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
    let churn = std::thread::spawn(move || {
        // SAFETY: moves only this thread.
        assert_eq!(unsafe { libc::setns(here_ns.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
        let mut program = load("only", &reads_bit(1));
        // The last interface that a survey comes to.
        // SAFETY: a text that ends with a zero octet.
        let last = unsafe { libc::if_nametoindex(c"p59".as_ptr()) };
        let link = descriptor(bpf(
            28,
            &mut [
                program.as_raw_fd().cast_unsigned(),
                last,
                EGRESS,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
            ],
        ));
        while !STOP.load(Ordering::Relaxed) {
            let next = load("only", &reads_bit(1));
            bpf(
                29,
                &mut [
                    link.as_raw_fd().cast_unsigned(),
                    next.as_raw_fd().cast_unsigned(),
                    0,
                    0,
                ],
            );
            program = next;
            std::thread::sleep(Duration::from_millis(30));
        }
        (program, link)
    });
    std::thread::sleep(Duration::from_millis(100));
    let mut scanner = Scanner::new().unwrap();
    let (mut surveys, mut blind) = (0, 0);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(8) {
        surveys += 1;
        let found = scanner.survey(&own).unwrap().found;
        blind += usize::from(here(&found).is_empty());
    }
    STOP.store(true, Ordering::Relaxed);
    let kept = churn.join().unwrap();
    println!("{surveys} surveys, {blind} of them find no program at the hook where one always is");
    drop((kept, node));
    assert_eq!(blind, 0);
}
