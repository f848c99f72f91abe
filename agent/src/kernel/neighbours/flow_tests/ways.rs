//! Ways to the packet's struct: registers, the stack, subprograms, other contexts, helpers.

use super::assembler::*;
use crate::kernel::neighbours::{Entry, FieldUse, Insn, Use, analyse};

#[test]
fn the_packet_is_followed_through_registers_and_the_stack() {
    let body = [
        copy(6, 1),
        store(DW, 10, -16, 6),
        call(1),
        load(DW, 7, 10, -16),
        with(ADD, 7, 60),
        load(H, 8, 7, TC_INDEX - 60),
        branch(JEQ, 8, 0, 0),
    ];
    assert_eq!(tc_index(&body), READS_ALL);
}

#[test]
fn accesses_of_other_sizes_count_where_they_overlap() {
    let wide = [load(W, 2, 1, TC_INDEX - 2), branch(JSET, 2, 0x1_0000, 0)];
    assert_eq!(tc_index(&wide), used(1, 0, 0));
    let narrow = [load(B, 2, 1, TC_INDEX + 1), branch(JEQ, 2, 0, 0)];
    assert_eq!(tc_index(&narrow), used(0xff00, 0, 0));
    assert_eq!(
        tc_index(&[store_number(B, 1, TC_INDEX + 1, 0)]),
        used(0, 0, 0xff00)
    );
    let eight = [load(DW, 2, 1, TC_INDEX - 4), store(DW, 1, TC_INDEX - 4, 2)];
    assert_eq!(tc_index(&eight), FieldUse::NONE);
    let beside = [load(H, 2, 1, TC_INDEX + 2), branch(JEQ, 2, 0, 0)];
    assert_eq!(tc_index(&beside), FieldUse::NONE);
}

#[test]
fn atomic_operations_count_as_reads_and_writes_of_every_bit() {
    let body = [insn(0xc3, 1, 2, TC_INDEX, 0)];
    assert_eq!(tc_index(&body), FieldUse::UNKNOWN);
}

#[test]
fn an_access_in_a_subprogram_is_found() {
    // if (subprogram(ctx)) ...; the subprogram returns tc_index & 1.
    let program = [
        insn(0x85, 0, 1, 1, 1),
        EXIT,
        load(H, 0, 1, TC_INDEX),
        with(AND, 0, 1),
        EXIT,
    ];
    let uses = analyse(&program, Entry::Packet, &layout(), &maps());
    assert_eq!(uses.tc_index, used(1, 0, 0));
    // tc_index &= ~4 through the same argument keeps the other bits.
    let program = [insn(0x85, 0, 1, 1, 1), EXIT, READ, with(AND, 2, !4), WRITE, EXIT];
    let uses = analyse(&program, Entry::Packet, &layout(), &maps());
    assert_eq!(uses.tc_index, used(0, 0, 4));
}

#[test]
fn a_packet_that_a_callback_finds_in_its_callers_stack_may_be_the_packet() {
    // The callback's second argument leads to a struct with the packet's address in it.
    let program = [
        EXIT,
        load(DW, 3, 2, 8),
        load(H, 4, 3, TC_INDEX),
        branch(JEQ, 4, 0, 0),
        EXIT,
    ];
    let uses = analyse(&program, Entry::Packet, &layout(), &maps());
    assert_eq!(uses.tc_index, READS_ALL);
}

#[test]
fn a_context_of_another_type_may_lead_to_the_packet() {
    // bpf_nf_ctx.skb
    let program = [
        load(DW, 3, 1, 8),
        load(H, 4, 3, TC_INDEX),
        branch(JEQ, 4, 0, 0),
        EXIT,
    ];
    assert_eq!(
        analyse(&program, Entry::Packet, &layout(), &maps()).tc_index,
        FieldUse::NONE
    );
    assert_eq!(
        analyse(&program, Entry::Unknown, &layout(), &maps()).tc_index,
        READS_ALL
    );
}

#[test]
fn reading_the_packets_struct_as_kernel_memory_reads_both_fields() {
    let probe = |helper| [copy(3, 1), with(ADD, 3, 100), call(helper)];
    let uses = run(&probe(PROBE));
    assert_eq!((uses.tc_index, uses.tc_classid), (READS_ALL, READS_ALL));
    assert_eq!(run(&probe(PROBE + 1)), Use::NONE);
    assert_eq!(run(&probe(0)).tc_index, READS_ALL, "a hidden operand");
}

#[test]
fn a_spilled_value_that_a_helper_is_given_is_read() {
    let body = |from| {
        [
            READ,
            store(W, 10, -4, 2),
            number(2, 0),
            copy(1, 10),
            with(ADD, 1, from),
            call(1),
        ]
    };
    assert_eq!(tc_index(&body(-8)), READS_ALL);
    let below = [
        READ,
        store(W, 10, -16, 2),
        number(2, 0),
        copy(1, 10),
        with(ADD, 1, -8),
        call(1),
    ];
    assert_eq!(tc_index(&below), FieldUse::NONE, "helpers read upwards");
}

#[test]
fn a_part_of_a_spilled_value_is_followed() {
    let body = [
        READ,
        store(W, 10, -8, 2),
        store_number(B, 10, -8, 0),
        load(W, 3, 10, -8),
        branch(JEQ, 3, 0, 0),
    ];
    // The octet that was overwritten is gone; the load of both octets counts all that is left.
    assert_eq!(tc_index(&body), used(0xff00, 0, 0));
    let body = [
        READ,
        store(W, 10, -8, 2),
        load(B, 3, 10, -7),
        branch(JEQ, 3, 0, 0),
    ];
    assert_eq!(tc_index(&body), used(0xff00, 0, 0));
}

#[test]
fn a_value_at_an_unknown_place_of_the_stack_is_read() {
    let stored = [
        copy(4, 10),
        insn(0x0f, 4, 7, 0, 0),
        READ,
        store(W, 4, 0, 2),
        number(2, 0),
    ];
    assert_eq!(tc_index(&stored), READS_ALL);
}

#[test]
fn the_analysis_of_loops_ends() {
    let body = [
        number(3, 0),
        READ,
        with(ADD, 3, 1),
        with(OR, 2, 1),
        branch(0xa0, 3, 10, -3),
        WRITE,
    ];
    assert_eq!(tc_index(&body), used(0, 1, 1));
}

#[test]
fn an_unknown_instruction_counts_as_reads_and_writes_of_every_bit() {
    let unknown = [insn(0x0d, 1, 0, 0, 0), EXIT];
    assert_eq!(analyse(&unknown, Entry::Packet, &layout(), &maps()), Use::UNKNOWN);
    let torn = [insn(0x18, 1, 0, 0, 0)];
    assert_eq!(analyse(&torn, Entry::Packet, &layout(), &maps()), Use::UNKNOWN);
    let endless = [number(0, 0)];
    assert_eq!(analyse(&endless, Entry::Packet, &layout(), &maps()), Use::UNKNOWN);
}

#[test]
fn a_large_program_is_analysed_without_walking_each_path() {
    // 30,000 instructions as Cilium's largest: branches over spills, each joined with the path beside it.
    let block = |number: i16| {
        let slot = -8 - number % 32 * 8;
        [
            READ,
            store(DW, 10, slot, 2),
            branch(JEQ, 4, 0, 3),
            with(AND, 2, !4),
            WRITE,
            store(DW, 10, slot, 4),
        ]
    };
    let body: Vec<Insn> = (0..5000).flat_map(block).collect();
    // 2^5000 paths: walked one by one, they would never end.
    assert_eq!(tc_index(&body).clears, 4);
}

#[test]
fn a_bit_that_is_set_on_some_paths_is_the_only_one_that_is_set() {
    // if (tc_classid) r3 = 1 else r3 = 0; tc_index |= r3, as a compiler makes it of a condition.
    let body = [
        number(3, 1),
        load(H, 4, 1, DATA),
        branch(JEQ, 4, 0, 1),
        number(3, 0),
        READ,
        insn(0x4f, 2, 3, 0, 0),
        WRITE,
    ];
    assert_eq!(tc_index(&body), used(0, 1, 1));
}

#[test]
fn a_value_that_is_left_where_paths_meet_and_never_used_again_is_not_read() {
    // One path leaves tc_index in r2, the other the packet's address.
    let body = [
        branch(JEQ, 4, 0, 2),
        READ,
        insn(0x05, 0, 0, 1, 0),
        copy(2, 1),
        number(2, 0),
    ];
    assert_eq!(tc_index(&body), FieldUse::NONE);
    let used_later = [
        branch(JEQ, 4, 0, 2),
        READ,
        insn(0x05, 0, 0, 1, 0),
        copy(2, 1),
        branch(JEQ, 2, 0, 0),
    ];
    assert_eq!(tc_index(&used_later), READS_ALL);
}
