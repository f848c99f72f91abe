//! One instruction, carried out on abstract values.

use super::access;
use super::bits::Bits;
use super::fields::Layout;
use super::helpers::{self, Reach};
use super::insn::{Insn, LD_IMM64, PSEUDO_MAP, alu, class, jmp, mode};
use super::stack::{Callee, State};
use super::uses::Use;
use super::value::Value;
use crate::kernel::datapath::programs::MapSize;
use std::collections::BTreeMap;

/// The next instruction in the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// To the next instruction.
    Fall,
    /// Past the second half of a 64-bit constant.
    Skip,
    /// To the jump's target.
    Jump,
    /// To the jump's target or the next instruction.
    Branch,
    /// Out of the function.
    End,
}

/// Data that is the same for all instructions of a program.
pub struct Surroundings<'a> {
    /// Where the carriers lie.
    pub layout: &'a Layout,
    /// True if helpers may call code of the program.
    pub has_callbacks: bool,
    /// Sizes of the program's maps, by their ids.
    pub maps: &'a BTreeMap<u32, MapSize>,
}

/// Carries out one instruction; `second` follows it. None if it is not known.
pub fn step(
    insn: Insn,
    second: Option<&Insn>,
    state: &mut State,
    around: &Surroundings<'_>,
    uses: &mut Use,
) -> Option<Next> {
    let layout = around.layout;
    let dst = *state.registers.get(usize::from(insn.dst))?;
    match insn.class() {
        class::ALU | class::ALU64 => {
            let value = arithmetic(insn, dst, state, uses)?;
            *register(state, insn.dst)? = value;
        }
        class::LD if insn.code == LD_IMM64 => {
            let high = u64::from(second?.imm.cast_unsigned());
            let number = high << 32 | u64::from(insn.imm.cast_unsigned());
            let value = match insn.src {
                0 => Value::Other(Bits::exactly(number)),
                PSEUDO_MAP => Value::Map(insn.imm.cast_unsigned()),
                _ => Value::NUMBER,
            };
            *register(state, insn.dst)? = value;
            return Some(Next::Skip);
        }
        // Packet octets: r1 to r5 are lost as in a call.
        class::LD if matches!(insn.mode(), mode::ABS | mode::IND) => {
            if insn.mode() == mode::IND {
                state.registers.get(usize::from(insn.src))?.escape(uses);
            }
            state.registers[..6].fill(Value::NUMBER);
        }
        class::LDX if matches!(insn.mode(), mode::MEM | mode::MEMSX) => {
            let base = *state.registers.get(usize::from(insn.src))?;
            let mut value = access::load(base, insn, &state.stack, layout, uses);
            if insn.mode() == mode::MEMSX {
                value.escape(uses);
                value = Value::NUMBER;
            }
            *register(state, insn.dst)? = value;
        }
        class::ST if insn.mode() == mode::NOSPEC => {}
        class::ST if insn.mode() == mode::MEM => {
            access::store(dst, insn, number(insn.imm), &mut state.stack, layout, uses);
        }
        class::STX if insn.mode() == mode::MEM => {
            let value = *state.registers.get(usize::from(insn.src))?;
            access::store(dst, insn, value, &mut state.stack, layout, uses);
        }
        class::STX if insn.mode() == mode::ATOMIC => access::atomic(insn, state, layout, uses)?,
        class::JMP | class::JMP32 => return jump(insn, dst, state, around, uses),
        _ => return None,
    }
    Some(Next::Fall)
}

fn register(state: &mut State, number: u8) -> Option<&mut Value> {
    state.registers.get_mut(usize::from(number))
}

/// The operand of arithmetic or of a jump; none if its register is not known.
fn operand(insn: Insn, state: &State) -> Option<Value> {
    if insn.has_register() {
        return state.registers.get(usize::from(insn.src)).copied();
    }
    Some(number(insn.imm))
}

/// A constant operand, as the kernel extends it to 64 bits.
fn number(imm: i32) -> Value {
    Value::Other(Bits::exactly(i64::from(imm).cast_unsigned()))
}

fn arithmetic(insn: Insn, dst: Value, state: &State, uses: &mut Use) -> Option<Value> {
    let wide = insn.class() == class::ALU64;
    if matches!(insn.operation(), alu::NEG | alu::END) {
        dst.escape(uses);
        return Some(Value::NUMBER);
    }
    let operand = operand(insn, state)?;
    // Linux 6.6: `off` makes a move extend the sign, 6.9: cast between address spaces.
    if insn.operation() == alu::MOV && insn.off != 0 {
        operand.escape(uses);
        return Some(Value::NUMBER);
    }
    Some(dst.compute(insn.operation(), operand, wide, uses))
}

fn jump(
    insn: Insn,
    dst: Value,
    state: &mut State,
    around: &Surroundings<'_>,
    uses: &mut Use,
) -> Option<Next> {
    match insn.operation() {
        // With a register (Linux 6.19) it jumps to an address in a table.
        jmp::JA if insn.has_register() => return None,
        jmp::JA => return Some(Next::Jump),
        jmp::JCOND => return Some(Next::Branch),
        jmp::CALL => {
            call(insn, state, around, uses);
            return Some(Next::Fall);
        }
        jmp::EXIT => {
            state.registers[0].escape(uses);
            return Some(Next::End);
        }
        _ => {}
    }
    let operand = operand(insn, state)?;
    let size = if insn.class() == class::JMP { 8 } else { 4 };
    match (dst.slice(0, size), operand.slice(0, size)) {
        (Value::Field(field), Value::Other(bits)) | (Value::Other(bits), Value::Field(field))
            if insn.operation() == jmp::JSET =>
        {
            uses.of(field.which).reads |= field.taint & field.at(bits.ones());
        }
        (left, right) => {
            left.escape(uses);
            right.escape(uses);
        }
    }
    Some(Next::Branch)
}

/// How many octets a helper may reach behind an address; none if that is not known.
fn length(call: Insn, registers: &[Value; 12], argument: usize, around: &Surroundings<'_>) -> Option<u32> {
    let map = match registers[1] {
        Value::Map(id) => around.maps.get(&id),
        _ => None,
    };
    let octets = match around.layout.helpers().reach(call.imm, argument)? {
        Reach::Key => map?.key,
        Reach::Value => map?.value,
        Reach::Next => u32::try_from(registers.get(argument + 1)?.known()?).ok()?,
    };
    (octets > 0).then_some(octets)
}

/// The third argument of `bpf_probe_read_kernel()` and its like is an address that the verifier does not check.
const SOURCE: usize = 3;

/// `BPF_PSEUDO_CALL` and `BPF_PSEUDO_KFUNC_CALL` in a call's source.
pub const SUBPROGRAM: u8 = 1;
const KFUNC: u8 = 2;

fn call(insn: Insn, state: &mut State, around: &Surroundings<'_>, uses: &mut Use) {
    let callee = if insn.src == 0 && !around.has_callbacks {
        Callee::Helper
    } else {
        Callee::Code
    };
    let count = if insn.src == 0 {
        around.layout.helpers().arguments(insn.imm)
    } else {
        helpers::MOST
    };
    for argument in 1..=usize::from(count) {
        match state.registers[argument] {
            Value::Stack(at) => {
                let length = length(insn, &state.registers, argument, around);
                state.stack.pass(at, length, callee, uses);
            }
            mixed @ Value::Mixed { address: true, .. } => {
                mixed.escape(uses);
                state.stack.pass(None, None, callee, uses);
            }
            value => value.escape(uses),
        }
    }
    let is_helper = insn.src != SUBPROGRAM && insn.src != KFUNC;
    // Where operands are hidden, any call may be a probe: then only an argument that is an address counts.
    let is_address = matches!(
        state.registers[SOURCE],
        Value::Pointer { .. } | Value::Mixed { address: true, .. }
    );
    let probes = around.layout.may_probe(insn.imm) && (insn.imm != 0 || is_address);
    if is_helper && probes {
        for carrier in super::uses::Carrier::ALL {
            uses.of(carrier).reads = u16::MAX;
        }
    }
    state.registers[1..=5].fill(Value::NUMBER);
    // A subprogram or kfunc may return what it was given.
    state.registers[0] = if is_helper { Value::NUMBER } else { Value::ANY };
}
