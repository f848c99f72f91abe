//! Calls: what subprograms and helpers get, and what they may do with it.

use super::assembler::*;
use crate::kernel::neighbours::{Entry, FieldUse, Use, analyse};

#[test]
fn a_subprogram_is_followed_with_the_arguments_of_its_calls() {
    let subprogram = |off| insn(0x85, 0, 1, off, 1);
    // A subprogram that loads from a struct on its caller's stack, where tc_index lies in the packet.
    let program = [copy(1, 10), subprogram(1), EXIT, load(H, 0, 1, TC_INDEX), EXIT];
    assert_eq!(
        analyse(&program, Entry::Packet, &layout(), &maps()).tc_index,
        FieldUse::NONE
    );
    // One that is called with the packet, too, may do anything with either.
    let program = [
        copy(6, 1),
        copy(1, 10),
        subprogram(4),
        copy(1, 6),
        subprogram(2),
        number(0, 0),
        EXIT,
        load(H, 0, 1, TC_INDEX),
        EXIT,
    ];
    assert_eq!(analyse(&program, Entry::Packet, &layout(), &maps()), Use::UNKNOWN);
}

#[test]
fn a_helper_reads_a_key_of_the_maps_size_and_memory_of_the_length_that_follows() {
    const LOOKUP: i32 = 10;
    const LOAD_BYTES: i32 = 12;
    let map = [insn(0x18, 1, 1, 0, 7), insn(0, 0, 0, 0, 0)].to_vec();
    let at = |register, at| vec![copy(register, 10), with(ADD, register, at)];
    let spilled_at = |at| vec![READ, store(W, 10, at, 2)];
    let eight = vec![number(4, 8)];
    let unknown = vec![load(W, 4, 1, DATA)];
    let cases = [
        // A key of 4 octets at -8; the value lies above it, or in it.
        (
            spilled_at(-4),
            [map.clone(), at(2, -8)].concat(),
            LOOKUP,
            used(0, 0, 0),
        ),
        (spilled_at(-8), [map, at(2, -8)].concat(), LOOKUP, READS_ALL),
        // Eight octets at -16.
        (
            spilled_at(-8),
            [at(3, -16), eight.clone()].concat(),
            LOAD_BYTES,
            used(0, 0, 0),
        ),
        (
            spilled_at(-12),
            [at(3, -16), eight.clone()].concat(),
            LOAD_BYTES,
            READS_ALL,
        ),
        (
            spilled_at(-8),
            [at(3, -16), unknown].concat(),
            LOAD_BYTES,
            READS_ALL,
        ),
        // An unknown helper.
        (spilled_at(-8), [at(3, -16), eight].concat(), 1, READS_ALL),
    ];
    for (spill, arguments, helper, expected) in cases {
        // r2 holds a number by then.
        let body = [spill, vec![number(2, 0)], arguments, vec![call(helper)]].concat();
        assert_eq!(tc_index(&body), expected, "{body:?}");
    }
}

#[test]
fn registers_beyond_the_arguments_of_a_helper_are_not_read() {
    let redirect = 9;
    let body = |argument, helper| [load(H, argument, 1, TC_INDEX), call(helper)];
    assert_eq!(tc_index(&body(3, redirect)), FieldUse::NONE);
    assert_eq!(tc_index(&body(2, redirect)), READS_ALL);
    assert_eq!(tc_index(&body(3, 1)), READS_ALL);
}
