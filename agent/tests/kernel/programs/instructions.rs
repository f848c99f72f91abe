//! How many instructions the verifier follows, per program and kernel, and which memory programs
//! share.

use super::*;
use crate::series;
use aya::maps::{MapInfo, MapType};
use aya::programs::{Program, ProgramError};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// What was counted before: kernel, program, instructions.
const RECORDED: &str = include_str!("instructions.txt");

/// The verifier refuses a program beyond this.
const LIMIT: u32 = 1_000_000;

/// Frames of several buffers, which our XDP program asks for.
const XDP_WITH_FRAGMENTS: (u32, u32) = (5, 18);

/// Other compilers count a little more, or less.
const TOLERANCE: f64 = 1.25;

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn the_verifier_follows_hardly_more_instructions_than_were_recorded() {
    let (major, minor) = series();
    let kernel = format!("{major}.{minor}");
    let counted = counted();
    let mut table = String::new();
    for (program, count) in &counted {
        writeln!(table, "{kernel} {program} {count}").unwrap();
    }
    println!("{table}");
    let before: BTreeMap<_, _> = RECORDED
        .lines()
        .filter_map(|line| line_of(line, &kernel))
        .collect();
    let grown = counted.iter().filter(|(program, count)| {
        let recorded = before.get(program.as_str());
        **count > LIMIT / 2
            || recorded.is_some_and(|recorded| f64::from(**count) > recorded * TOLERANCE)
    });
    let grown: Vec<_> = grown.collect();
    assert!(
        grown.is_empty(),
        "{grown:?} grew. If it is worth it, these are the lines for instructions.txt:\n{table}"
    );
}

/// The program and its instructions, if the line is one of this kernel.
fn line_of<'a>(line: &'a str, kernel: &str) -> Option<(&'a str, f64)> {
    let mut words = line.split(' ').skip_while(|word| *word != kernel).skip(1);
    Some((words.next()?, words.next()?.parse().unwrap()))
}

/// Instructions of each program; none before Linux 5.16, which doesn't tell.
fn counted() -> BTreeMap<String, u32> {
    let mut datapath = kernel::load();
    let mut counted = BTreeMap::new();
    for (name, program) in datapath.ebpf.programs_mut() {
        if matches!(program, Program::Xdp(_)) && series() < XDP_WITH_FRAGMENTS {
            continue;
        }
        match load(program) {
            Ok(()) | Err(ProgramError::AlreadyLoaded) => {}
            Err(error) => panic!("{name}: {error}"),
        }
        if let Some(count) = program.info().unwrap().verified_instruction_count() {
            counted.insert(name.to_owned(), count);
        }
    }
    counted
}

fn load(program: &mut Program) -> Result<(), ProgramError> {
    match program {
        Program::SchedClassifier(program) => program.load(),
        Program::Xdp(program) => program.load(),
        Program::CgroupSock(program) => program.load(),
        Program::CgroupSockAddr(program) => program.load(),
        other => panic!(
            "{:?}: a kind that this test does not load",
            other.prog_type()
        ),
    }
}

/// The programs only add to their values, cgroup hooks with one instruction each.
const COUNTED: [&str; 2] = ["COUNTERS", "DENIAL_COUNTS"];

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn no_cgroup_hook_shares_an_element_of_its_processor_with_programs_that_interrupt_it() {
    let mut datapath = kernel::load();
    let mut maps = [BTreeSet::new(), BTreeSet::new()];
    for (name, program) in datapath.ebpf.programs_mut() {
        let _ = load(program);
        let is_hook = matches!(program, Program::CgroupSockAddr(_));
        for id in program.info().unwrap().map_ids().unwrap().unwrap() {
            let map = MapInfo::from_id(id).unwrap();
            let of_processor = matches!(
                map.map_type().unwrap(),
                MapType::PerCpuArray | MapType::PerCpuHash | MapType::LruPerCpuHash
            );
            if of_processor {
                maps[usize::from(is_hook)].insert(map.name_as_str().unwrap().to_owned());
            }
        }
        assert!(!maps[usize::from(is_hook)].is_empty(), "{name}");
    }
    let shared: Vec<_> = maps[0].intersection(&maps[1]).collect();
    // The kernel keeps 15 characters of a name.
    assert_eq!(shared, COUNTED);
}
