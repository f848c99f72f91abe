//! How much stack the programs take. Kernels before 6.8 count each frame in steps of 32 octets,
//! later ones in steps of 16.

use aya_obj::Object;
use aya_obj::generated::bpf_insn;
use std::collections::BTreeMap;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/epguard-ebpf"));

/// Octets of stack that a program and the functions that it is in may take together, of any kernel.
const LIMIT: usize = 512;

/// In octets.
const STEP: usize = 32;

/// Of `bpf_insn`: operations, registers, and what a call may mean.
const CALL: u8 = 0x85;
const COPY: u8 = 0xbf;
const ADD: u8 = 0x07;
const LOADS_AND_STORES: std::ops::RangeInclusive<u8> = 0..=3;
const FRAME: u8 = 10;
const OWN_FUNCTION: u8 = 1;

#[test]
#[ignore = "needs the eBPF object"]
fn no_calls_take_more_stack_than_old_kernels_have() {
    let mut object = Object::parse(OBJECT).expect("run `cargo xtask build` first");
    let sections = object
        .functions
        .keys()
        .map(|(section, _)| *section)
        .collect();
    object.relocate_calls(&sections).unwrap();
    assert!(!object.programs.is_empty());
    let mut deep = BTreeMap::new();
    for (name, program) in &object.programs {
        let linked = &object.functions[&program.function_key()].instructions;
        let frames = Linked::new(linked).deepest(0);
        let taken = octets(&frames);
        println!("{name} takes {taken} octets of stack: {frames:?}");
        if taken > LIMIT {
            deep.insert(name, frames);
        }
    }
    assert!(
        deep.is_empty(),
        "more than {LIMIT} octets of stack: {deep:?}"
    );
}

/// A program with the functions that it calls behind it.
struct Linked<'a> {
    instructions: &'a [bpf_insn],
    /// Where each function begins.
    begins: Vec<usize>,
}

impl<'a> Linked<'a> {
    fn new(instructions: &'a [bpf_insn]) -> Self {
        let calls = (0..instructions.len()).filter_map(|at| called(instructions, at));
        let mut begins: Vec<usize> = calls.chain([0]).collect();
        begins.sort_unstable();
        begins.dedup();
        Self {
            instructions,
            begins,
        }
    }

    /// The frames of the function that begins there and of the deepest of its calls.
    fn deepest(&self, begin: usize) -> Vec<usize> {
        let next = self.begins.iter().copied().find(|other| *other > begin);
        let end = next.unwrap_or(self.instructions.len());
        let calls = (begin..end).filter_map(|at| called(self.instructions, at));
        let below = calls
            .map(|begin| self.deepest(begin))
            .max_by_key(|frames| octets(frames));
        let mut frames = vec![frame(&self.instructions[begin..end])];
        frames.extend(below.into_iter().flatten());
        frames
    }
}

/// What the kernel counts for these frames.
fn octets(frames: &[usize]) -> usize {
    frames
        .iter()
        .map(|frame| frame.max(&1).next_multiple_of(STEP))
        .sum()
}

/// Where the function begins that the instruction calls, if it calls one of ours.
fn called(instructions: &[bpf_insn], at: usize) -> Option<usize> {
    let instruction = &instructions[at];
    if instruction.code != CALL || instruction.src_reg() != OWN_FUNCTION {
        return None;
    }
    at.checked_add_signed(isize::try_from(instruction.imm).unwrap() + 1)
}

/// Octets of the stack that a function reads or writes, or takes the address of.
fn frame(instructions: &[bpf_insn]) -> usize {
    let mut deepest = 0;
    // Registers that hold the address of the frame, until something is added to it.
    let mut copies = [false; 16];
    for instruction in instructions {
        let from = instruction.src_reg();
        let to = instruction.dst_reg();
        let offset = if LOADS_AND_STORES.contains(&(instruction.code & 7))
            && (from == FRAME || to == FRAME)
        {
            i32::from(instruction.off)
        } else if instruction.code == ADD && copies[usize::from(to)] {
            instruction.imm
        } else {
            0
        };
        copies[usize::from(to)] = instruction.code == COPY && from == FRAME;
        deepest = deepest.max(-offset);
    }
    usize::try_from(deepest).unwrap()
}
