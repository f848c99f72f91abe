//! Finds how a program uses the two carriers, from its translated instructions, on every path.
//!
//! Abstract interpretation: each instruction is carried out on [`Value`]s, joined where paths meet, until nothing
//! changes. A subprogram gets the arguments of all its calls. Code that no jump and no call leads to is a callback,
//! whose arguments may be the packet.

use super::field::Origin;
use super::fields::Layout;
use super::insn::{Insn, LD_IMM64, PSEUDO_FUNC, class, jmp};
use super::stack::{Stack, State};
use super::step::{Next, SUBPROGRAM, Surroundings, step};
use super::uses::Use;
use super::value::Value;
use crate::kernel::datapath::programs::MapSize;
use std::collections::{BTreeMap, BTreeSet};

/// The value in r1 when a program starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Entry {
    /// The packet's `sk_buff`.
    Packet,
    /// A value that may be the `sk_buff`, or lead to it.
    Unknown,
}

/// Instructions carried out per instruction of the program, beyond which its use counts as unknown. Real programs need
/// 1 to 5: a point is visited again only when a value there covers more than before.
const STEPS: usize = 64;

/// The possible use of the carriers by a program. [`Use::UNKNOWN`] for instructions that this analysis does not know,
/// and for programs that take more than 64 steps per instruction: that bounds the time.
#[must_use]
pub fn analyse(program: &[Insn], entry: Entry, layout: &Layout, maps: &BTreeMap<u32, MapSize>) -> Use {
    attempt(program, entry, layout, maps).unwrap_or(Use::UNKNOWN)
}

/// As [`analyse`]; none if the analysis gives up.
pub fn attempt(
    program: &[Insn],
    entry: Entry,
    layout: &Layout,
    maps: &BTreeMap<u32, MapSize>,
) -> Option<Use> {
    Flow::new(program, layout, maps).run(entry)
}

struct Flow<'a> {
    program: &'a [Insn],
    around: Surroundings<'a>,
    /// States of the instructions that jumps lead to.
    states: Vec<Option<Box<State>>>,
    is_target: Vec<bool>,
    visited: Vec<bool>,
    /// Instructions to visit, lowest first, so that paths meet before they go on.
    work: BTreeSet<usize>,
    uses: Use,
}

impl<'a> Flow<'a> {
    fn new(program: &'a [Insn], layout: &'a Layout, maps: &'a BTreeMap<u32, MapSize>) -> Self {
        let mut constants = program.iter().filter(|insn| insn.code == LD_IMM64);
        let has_callbacks = constants.any(|insn| insn.src == PSEUDO_FUNC);
        let mut flow = Self {
            program,
            around: Surroundings {
                layout,
                has_callbacks,
                maps,
            },
            states: vec![None; program.len()],
            is_target: vec![false; program.len()],
            visited: vec![false; program.len()],
            work: BTreeSet::new(),
            uses: Use::NONE,
        };
        for (at, insn) in program.iter().enumerate() {
            if let Some(target) = flow.target(at, *insn) {
                flow.is_target[target] = true;
            }
        }
        flow
    }

    /// Runs the analysis; none if it gives up.
    fn run(mut self, entry: Entry) -> Option<Use> {
        let mut steps = self.program.len() * STEPS;
        let mut unreached = 0;
        let first = match entry {
            Entry::Packet => State::of_program(),
            Entry::Unknown => State::of_subprogram(),
        };
        self.seed(0, first);
        loop {
            while let Some(at) = self.work.pop_first() {
                self.follow(at, &mut steps)?;
            }
            unreached += self.visited[unreached..].iter().take_while(|seen| **seen).count();
            if unreached == self.program.len() {
                return Some(self.uses);
            }
            self.seed(unreached, State::of_subprogram());
        }
    }

    fn seed(&mut self, at: usize, state: State) {
        if let Some(slot) = self.states.get_mut(at) {
            *slot = Some(Box::new(state));
            self.work.insert(at);
        }
    }

    /// Carries out instructions up to the next point where paths meet.
    fn follow(&mut self, mut at: usize, steps: &mut usize) -> Option<()> {
        let mut state = self.states.get(at)?.as_deref()?.clone();
        loop {
            *steps = steps.checked_sub(1)?;
            let insn = *self.program.get(at)?;
            self.visited[at] = true;
            if let Some(callee) = self.callee(at, insn) {
                let arguments = state.of_callee(&mut self.uses);
                self.merge(callee, &arguments);
            }
            let second = self.program.get(at + 1);
            at = match step(insn, second, &mut state, &self.around, &mut self.uses)? {
                Next::End => return Some(()),
                Next::Skip => {
                    *self.visited.get_mut(at + 1)? = true;
                    at + 2
                }
                Next::Jump => {
                    let target = self.target(at, insn)?;
                    self.merge(target, &state);
                    return Some(());
                }
                Next::Branch => {
                    let target = self.target(at, insn)?;
                    self.merge(target, &state);
                    at + 1
                }
                Next::Fall => at + 1,
            };
            if *self.is_target.get(at)? {
                self.merge(at, &state);
                return Some(());
            }
        }
    }

    fn merge(&mut self, at: usize, state: &State) {
        match &mut self.states[at] {
            Some(there) => {
                if !there.join(state) {
                    return;
                }
            }
            empty => *empty = Some(Box::new(state.clone())),
        }
        self.work.insert(at);
    }

    /// The first instruction of the subprogram that is called; the kernel puts its distance into `off`
    /// (`jit_subprogs()` and `bpf_patch_call_args()`), which has room for 32,767. None if it is not certain: where callbacks
    /// exist, a subprogram may also be one.
    fn callee(&self, at: usize, insn: Insn) -> Option<usize> {
        let calls = insn.class() == class::JMP && insn.operation() == jmp::CALL && insn.src == SUBPROGRAM;
        if !calls || self.around.has_callbacks || self.program.len() > i16::MAX as usize {
            return None;
        }
        self.behind(at, insn.off.into())
    }

    /// The instruction that another may jump to; none if it does not jump, or out of the program.
    fn target(&self, at: usize, insn: Insn) -> Option<usize> {
        let distance = match (insn.class(), insn.operation()) {
            (class::JMP | class::JMP32, jmp::CALL | jmp::EXIT) => return None,
            (class::JMP32, jmp::JA) => i64::from(insn.imm),
            (class::JMP | class::JMP32, _) => i64::from(insn.off),
            _ => return None,
        };
        self.behind(at, distance)
    }

    /// The instruction at a distance from the one behind `at`; none out of the program.
    fn behind(&self, at: usize, distance: i64) -> Option<usize> {
        let target = usize::try_from(i64::try_from(at).ok()? + 1 + distance).ok()?;
        (target < self.program.len()).then_some(target)
    }
}

impl State {
    /// The start of a function: `value` in all registers except for arguments and r10.
    fn of_function(value: Value, arguments: &[Origin]) -> Self {
        let mut registers = [value; 12];
        for (origin, register) in arguments.iter().zip(&mut registers[1..]) {
            let (origin, delta) = (*origin, Some(0));
            *register = Value::Pointer { origin, delta };
        }
        registers[10] = Value::Stack(Some(0));
        let stack = Stack::default();
        Self { registers, stack }
    }

    fn of_program() -> Self {
        Self::of_function(Value::NUMBER, &[Origin::Context])
    }

    fn of_subprogram() -> Self {
        Self::of_function(Value::ANY, &[1, 2, 3, 4, 5].map(Origin::Argument))
    }

    /// The state in which a called subprogram starts. Of the caller's stack it gets addresses at most.
    fn of_callee(&self, uses: &mut Use) -> Self {
        let mut callee = Self::of_program();
        for argument in 1..=5 {
            callee.registers[argument] = match self.registers[argument] {
                Value::Stack(_) => Value::Stack(None),
                Value::Field(_) | Value::Mixed { .. } => {
                    self.registers[argument].escape(uses);
                    Value::NUMBER.join(self.registers[argument])
                }
                value => value,
            };
        }
        callee
    }

    /// Joins another state into this one. True if it covers more than before.
    fn join(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (register, other) in self.registers.iter_mut().zip(&other.registers) {
            changed |= register.widen(*other);
        }
        self.stack.join(&other.stack) | changed
    }
}
