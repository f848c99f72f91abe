//! Loads and stores that may reach a carrier.

use super::bits::mask;
use super::field::Field;
use super::field::Origin;
use super::fields::Layout;
use super::insn::Insn;
use super::stack::{Stack, State};
use super::uses::{Carrier, Use};
use super::value::Value;

/// The value that a load through `base` gives.
pub fn load(base: Value, insn: Insn, stack: &Stack, layout: &Layout, uses: &mut Use) -> Value {
    let size = insn.size();
    let (origin, delta) = match base {
        Value::Stack(at) => return stack.load(offset(at, insn), size, uses),
        Value::Mixed { address: true, .. } => {
            *uses = Use::UNKNOWN;
            return Value::ANY;
        }
        Value::Pointer { origin, delta } => (origin, offset(delta, insn)),
        Value::Field(_) | Value::Mixed { .. } => {
            base.escape(uses);
            return Value::NUMBER;
        }
        Value::Other(_) | Value::Map(_) => return Value::NUMBER.slice(0, size),
    };
    match fields_at(delta, size, layout)[..] {
        [] if origin != Origin::Context && size == 8 => Value::ANY,
        [] => Value::NUMBER.slice(0, size),
        [(which, shift)] => {
            let octets = Value::Field(Field::loaded(which, origin, shift)).slice(0, size);
            match (octets, origin) {
                // The base may be another struct, and these eight octets a pointer in it.
                (Value::Field(_), Origin::Argument(_) | Origin::Any) if size == 8 => {
                    octets.escape(uses);
                    Value::ANY
                }
                _ => octets,
            }
        }
        ref several => {
            for (which, _) in several {
                uses.of(*which).reads = u16::MAX;
            }
            if origin == Origin::Context {
                Value::NUMBER
            } else {
                Value::ANY
            }
        }
    }
}

/// Stores a value through `base`.
pub fn store(base: Value, insn: Insn, value: Value, stack: &mut Stack, layout: &Layout, uses: &mut Use) {
    let size = insn.size();
    let (origin, delta) = match base {
        Value::Mixed { address: true, .. } => {
            *uses = Use::UNKNOWN;
            return stack.store(None, size, value, uses);
        }
        Value::Stack(at) => return stack.store(offset(at, insn), size, value, uses),
        Value::Pointer { origin, delta } => (origin, offset(delta, insn)),
        Value::Field(_) | Value::Other(_) | Value::Map(_) | Value::Mixed { .. } => {
            base.escape(uses);
            value.escape(uses);
            return;
        }
    };
    if delta.is_none() {
        *uses = Use::UNKNOWN;
    }
    let fields = fields_at(delta, size, layout);
    if fields.is_empty() {
        value.escape(uses);
    }
    for (which, shift) in fields {
        put(value.slice(0, size), (which, shift), origin, size, uses);
    }
}

/// Carries out an atomic operation; none if its destination is no register.
pub fn atomic(insn: Insn, state: &mut State, layout: &Layout, uses: &mut Use) -> Option<()> {
    /// Bit of `imm`: the old value goes into the source register, or r0 for the exchange that compares.
    const FETCH: i32 = 1;
    const EXCHANGE_IF_EQUAL: i32 = 0xf1;
    const LOAD_ACQUIRE: i32 = 0x100;
    const STORE_RELEASE: i32 = 0x110;
    let dst = *state.registers.get(usize::from(insn.dst))?;
    let src = *state.registers.get(usize::from(insn.src))?;
    match insn.imm {
        LOAD_ACQUIRE => {
            let value = load(src, insn, &state.stack, layout, uses);
            *state.registers.get_mut(usize::from(insn.dst))? = value;
            return Some(());
        }
        STORE_RELEASE => {
            store(dst, insn, src, &mut state.stack, layout, uses);
            return Some(());
        }
        _ => {}
    }
    load(dst, insn, &state.stack, layout, uses).escape(uses);
    src.escape(uses);
    if insn.imm == EXCHANGE_IF_EQUAL {
        state.registers[0].escape(uses);
        state.registers[0] = Value::NUMBER;
    } else if insn.imm & FETCH != 0 {
        *state.registers.get_mut(usize::from(insn.src))? = Value::NUMBER;
    }
    store(dst, insn, Value::NUMBER, &mut state.stack, layout, uses);
    Some(())
}

fn offset(at: Option<i32>, insn: Insn) -> Option<i32> {
    at?.checked_add(insn.off.into())
}

/// The carriers that `size` octets at an offset overlap, with the position of their lowest bit in the number that is
/// loaded or stored.
fn fields_at(at: Option<i32>, size: u8, layout: &Layout) -> Vec<(Carrier, i32)> {
    let size = i32::from(size);
    let placed = |carrier| {
        let field = layout.offset(carrier);
        let Some(at) = at else {
            // The verifier refuses an address that varies, so the analysis does not understand this one.
            return Some((carrier, 0));
        };
        let shift = if cfg!(target_endian = "little") {
            (field - at) * 8
        } else {
            (at + size - field - 2) * 8
        };
        (field < at + size && at < field + 2).then_some((carrier, shift))
    };
    Carrier::ALL.into_iter().filter_map(placed).collect()
}

/// A store over a carrier.
fn put(value: Value, (which, shift): (Carrier, i32), origin: Origin, size: u8, uses: &mut Use) {
    // Only its positions are used.
    let target = Field::loaded(which, origin, shift);
    let span = target.at(mask(size));
    let (sets, keeps) = match value {
        Value::Other(number) => (target.at(number.ones()), 0),
        Value::Field(field) if (field.which, field.shift) == (which, shift) => {
            let is_same_packet = field.origin == origin && origin != Origin::Any;
            let (carried, keeps, reads) = if is_same_packet {
                (0, field.kept, field.altered)
            } else {
                (field.taint, 0, field.taint)
            };
            uses.of(which).reads |= reads;
            (target.at(field.ones) | carried, keeps)
        }
        Value::Field(field) => {
            value.escape(uses);
            (target.at(field.ones | field.place(field.taint)), 0)
        }
        _ => {
            value.escape(uses);
            (u16::MAX, 0)
        }
    };
    let there = uses.of(which);
    there.sets |= sets & span;
    there.clears |= span & !keeps;
}
