//! The scanner against programs that are loaded and attached in a network namespace of each test's own.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod reach;
mod rig;

use epguard::kernel::datapath::{Datapath, Hooks};
use epguard::kernel::neighbours::{FieldUse, Found, Place, Scanner, Use};
use rig::{Node, erases, here, id, ifindex, load, prog_array, put, reads_bit, run, survey, tail_calls};
use std::collections::BTreeSet;

/// `BPF_TCX_INGRESS` and `BPF_TCX_EGRESS`.
const INGRESS: u32 = 46;
const EGRESS: u32 = 47;

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_program_at_a_tcx_hook_is_found_with_the_bits_that_it_reads() {
    let node = Node::new();
    let reader = load("k3f9", &reads_bit(1));
    node.attach(&reader, EGRESS);
    let found = survey(&BTreeSet::new());
    let [there] = &here(&found)[..] else {
        panic!("{found:#?}")
    };
    assert_eq!(there.place, "pod tcx egress");
    assert_eq!(there.program.as_ref().unwrap().name, "k3f9");
    assert_eq!((there.uses.tc_index.reads, there.uses.tc_classid.reads), (1, 0));
    assert!(!there.may_wipe(false), "egress");
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_reader_behind_two_tail_calls_is_found() {
    let node = Node::new();
    let reader = load("zz", &reads_bit(2));
    let (outer, inner) = (prog_array(), prog_array());
    let middle = load("middle", &tail_calls(&inner));
    let first = load("first", &tail_calls(&outer));
    put(&outer, 2, &middle);
    put(&inner, 3, &reader);
    node.attach(&first, INGRESS);
    let found = survey(&BTreeSet::new());
    let reads = |found: &&Found| found.uses.tc_index.reads == 2;
    let called = found.iter().find(reads).unwrap();
    assert_eq!(called.program.as_ref().unwrap().name, "zz");
    assert!(
        called.place.starts_with("tail call of middle ("),
        "{}",
        called.place
    );
    let [at_hook] = &here(&found)[..] else {
        panic!("{found:#?}")
    };
    assert_eq!(at_hook.uses, Use::NONE);
    assert_eq!(at_hook.with_tail_calls.tc_index.reads, 2);
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_program_that_enters_a_map_later_is_found_by_the_next_survey() {
    let node = Node::new();
    let array = prog_array();
    let first = load("first", &tail_calls(&array));
    node.attach(&first, INGRESS);
    let mut scanner = Scanner::new().unwrap();
    let reads = |scanner: &mut Scanner| {
        let found = scanner.survey(&BTreeSet::new()).unwrap().found;
        here(&found)[0].with_tail_calls.tc_index.reads
    };
    assert_eq!(reads(&mut scanner), 0);
    let reader = load("later", &reads_bit(4));
    put(&array, 0, &reader);
    assert_eq!(reads(&mut scanner), 4);
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_program_of_another_network_namespace_is_not_found() {
    let node = Node::new();
    let elsewhere = std::thread::spawn(|| {
        let node = Node::new();
        let reader = load("elsewhere", &reads_bit(8));
        node.attach(&reader, INGRESS);
        let found = survey(&BTreeSet::new());
        assert_eq!(here(&found).len(), 1);
        (node, reader)
    });
    let held = elsewhere.join().unwrap();
    let found = survey(&BTreeSet::new());
    assert_eq!(here(&found), Vec::<&Found>::new());
    let is_theirs = |found: &Found| {
        let program = found.program.as_ref();
        program.is_some_and(|program| program.name == "elsewhere")
    };
    assert!(!found.iter().any(is_theirs));
    drop((held, node));
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn programs_after_ours_may_wipe_and_programs_before_ours_may_not() {
    let node = Node::new();
    let [before, ours, keeper, eraser] = [
        load("before", &erases()),
        load("ours", &reads_bit(1)),
        load("keeper", &reads_bit(1)),
        load("eraser", &erases()),
    ];
    for program in [&before, &ours, &keeper, &eraser] {
        node.attach(program, INGRESS);
    }
    let found = survey(&BTreeSet::from([id(&ours)]));
    let wipes = |carried: bool| -> Vec<(String, bool)> {
        let here = here(&found).into_iter();
        here.map(|found| (found.program.clone().unwrap().name, found.may_wipe(carried)))
            .collect()
    };
    let expected = |wipes: [(&str, bool); 3]| wipes.map(|(name, wipes)| (name.to_owned(), wipes)).to_vec();
    assert_eq!(
        wipes(true),
        expected([("before", false), ("keeper", false), ("eraser", true)])
    );
    assert_eq!(
        wipes(false),
        expected([("before", false), ("keeper", true), ("eraser", true)])
    );
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_clsact_filter_sets_the_minor_number_of_its_class() {
    let node = Node::new();
    let program = load("filter", &reads_bit(1));
    let pin = node.pin(&program, "filter");
    run("tc qdisc add dev pod clsact");
    run(&format!(
        "tc filter add dev pod ingress bpf direct-action object-pinned {} classid 1:5",
        pin.display()
    ));
    run("tc filter add dev pod egress protocol ip u32 match u32 0 0 classid 1:9");
    let found = survey(&BTreeSet::new());
    let here = here(&found);
    let [ingress, egress] = here[..] else {
        panic!("{found:#?}")
    };
    assert_eq!(ingress.place, "pod clsact ingress bpf");
    let set = |reads, sets| FieldUse {
        reads,
        sets,
        clears: u16::MAX,
    };
    assert_eq!(
        (ingress.uses.tc_index, ingress.uses.tc_classid),
        (set(1, 5), set(0, 5))
    );
    assert!(ingress.may_wipe(true));
    assert_eq!(egress.place, "pod clsact egress u32");
    assert_eq!(egress.at, Place::Clsact { ingress: false });
    assert_eq!((egress.uses.tc_index, egress.may_wipe(true)), (set(0, 9), false));
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_filter_of_a_classful_qdisc_is_found() {
    let node = Node::new();
    let program = load("shaper", &reads_bit(16));
    let pin = node.pin(&program, "shaper");
    run("tc qdisc add dev pod root handle 1: htb");
    run(&format!(
        "tc filter add dev pod parent 1: bpf direct-action object-pinned {}",
        pin.display()
    ));
    let found = survey(&BTreeSet::new());
    let here = here(&found);
    assert_eq!(here.len(), 1, "{found:#?}");
    assert_eq!(
        (here[0].place.as_str(), here[0].at),
        ("pod filter bpf", Place::Filter)
    );
    assert_eq!(here[0].uses.tc_index.reads, 16);
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn epguards_own_programs_read_every_bit() {
    let node = Node::new();
    let mut datapath =
        Datapath::load(&node.dir.join("epguard"), Hooks::Tcx).expect("run `cargo xtask build`");
    datapath.hook(ifindex(), "pod").unwrap();
    let mut scanner = Scanner::new().unwrap();
    let found = scanner.survey(&BTreeSet::new()).unwrap().found;
    let begun = std::time::Instant::now();
    assert_eq!(
        here(&scanner.survey(&BTreeSet::new()).unwrap().found),
        here(&found)
    );
    println!("a survey of what is known: {:?}", begun.elapsed());
    let uses = |name: &str| {
        let named = |found: &&&Found| found.program.as_ref().unwrap().name == name;
        here(&found).iter().find(named).unwrap().uses
    };
    assert_eq!(uses("epguard_to").tc_index.reads, u16::MAX);
    assert_eq!(uses("epguard_from").tc_index.sets, u16::MAX);
    println!("from {:x?}\nto {:x?}", uses("epguard_from"), uses("epguard_to"));
}
