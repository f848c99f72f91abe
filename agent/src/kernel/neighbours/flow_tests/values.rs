//! What happens to a carrier's value.

use super::assembler::*;
use crate::kernel::neighbours::{FieldUse, Insn, Use};

#[test]
fn a_program_that_touches_other_fields_uses_nothing() {
    let body = [load(DW, 3, 1, DATA), load(H, 4, 3, TC_INDEX), store(W, 1, 100, 4)];
    assert_eq!(run(&body), Use::NONE);
}

#[test]
fn a_flag_that_is_tested_through_a_volatile_stack_slot_is_one_bit() {
    let body = [
        READ,
        store(W, 10, -4, 2),
        load(W, 3, 10, -4),
        with(AND, 3, 1),
        branch(JEQ, 3, 0, 0),
    ];
    assert_eq!(tc_index(&body), used(1, 0, 0));
}

#[test]
fn a_slot_that_is_spilled_on_one_path_only_is_not_read_where_paths_meet() {
    let body = [branch(JEQ, 4, 0, 2), READ, store(W, 10, -4, 2), number(2, 0)];
    assert_eq!(tc_index(&body), FieldUse::NONE);
}

#[test]
fn clearing_or_setting_a_bit_in_place_reads_nothing() {
    assert_eq!(tc_index(&[READ, with(AND, 2, !4), WRITE]), used(0, 0, 4));
    assert_eq!(tc_index(&[READ, with(OR, 2, 8), WRITE]), used(0, 8, 8));
    assert_eq!(tc_index(&[READ, WRITE]), FieldUse::NONE);
}

#[test]
fn flipping_a_bit_reads_it() {
    assert_eq!(tc_index(&[READ, with(XOR, 2, 2), WRITE]), used(2, 2, 2));
}

#[test]
fn setting_a_bit_on_one_path_reads_nothing() {
    let body = [READ, branch(JEQ, 4, 0, 1), with(OR, 2, 8), WRITE];
    assert_eq!(tc_index(&body), used(0, 8, 8));
}

#[test]
fn constants_set_their_bits_and_clear_the_others() {
    assert_eq!(
        tc_index(&[store_number(H, 1, TC_INDEX, 0x11)]),
        used(0, 0x11, ALL)
    );
    let uses = run(&[store_number(H, 1, TC_CLASSID, 0)]);
    assert_eq!(
        (uses.tc_index, uses.tc_classid),
        (FieldUse::NONE, used(0, 0, ALL))
    );
    // Constant blinding writes the constant 0 like this.
    let blinded = [number(11, 0x55), with(XOR, 11, 0x55), store(H, 1, TC_INDEX, 11)];
    assert_eq!(tc_index(&blinded), used(0, 0, ALL));
}

#[test]
fn a_value_computed_elsewhere_may_set_every_bit() {
    let body = [copy(6, 1), call(1), store(H, 6, TC_INDEX, 0)];
    assert_eq!(tc_index(&body), used(0, ALL, ALL));
}

#[test]
fn a_value_that_leaves_the_program_or_is_compared_is_read() {
    let uses: [&[Insn]; 6] = [
        &[READ, branch(JEQ, 2, 1, 0)],
        &[READ, store(W, 1, 100, 2)],
        &[READ, call(1)],
        &[READ, with(ADD, 2, 1)],
        &[READ, copy(0, 2), EXIT],
        &[READ, copy(3, 2), insn(0x0f, 4, 3, 0, 0)],
    ];
    for body in uses {
        assert_eq!(tc_index(body), READS_ALL, "{body:?}");
    }
}

#[test]
fn a_test_of_bits_reads_those_bits() {
    assert_eq!(tc_index(&[READ, branch(JSET, 2, 0x12, 0)]), used(0x12, 0, 0));
    let high = [READ, with(RSH, 2, 8), with(AND, 2, 3), branch(JEQ, 2, 1, 0)];
    assert_eq!(tc_index(&high), used(0x300, 0, 0));
    let extended = [
        READ,
        with(AND, 2, 0x1f),
        with(LSH, 2, 32),
        with(RSH, 2, 32),
        branch(JEQ, 2, 1, 0),
    ];
    assert_eq!(tc_index(&extended), used(0x1f, 0, 0));
}

#[test]
fn a_shifted_write_back_reads_what_it_moves() {
    let body = [READ, with(AND, 2, 0xf), with(LSH, 2, 4), WRITE];
    assert_eq!(tc_index(&body), used(0xf, 0xf0, ALL));
}
