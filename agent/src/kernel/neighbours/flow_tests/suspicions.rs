//! Programs that read `tc_index` in ways that the analysis should see.

use super::assembler::*;
use crate::kernel::neighbours::{Entry, Insn, analyse};

fn reads(program: &[Insn]) -> u16 {
    analyse(program, Entry::Packet, &layout(), &maps()).tc_index.reads
}

#[test]
fn a_pointer_that_is_spilled_where_another_path_stores_an_octet_is_followed() {
    let program = [
        load(W, 7, 1, DATA),
        branch(0x20, 7, 100, 2),
        store(DW, 10, -24, 1),
        insn(0x05, 0, 0, 1, 0),
        store_number(B, 10, -24, 0),
        branch(0x20, 7, 100, 3),
        load(DW, 6, 10, -24),
        load(H, 2, 6, TC_INDEX),
        branch(JSET, 2, 1, 0),
        number(0, 0),
        EXIT,
    ];
    assert_eq!(reads(&program) & 1, 1);
}

#[test]
fn the_next_number_is_no_length_of_a_fixed_size_argument() {
    // bpf_check_mtu(ctx, 0, &mtu_len, 1, 0) reads 4 octets of mtu_len; bpf_sk_redirect_hash(skb, map, &key, 1) all of key.
    let body = [
        READ,
        store(H, 10, -6, 2),
        store_number(H, 10, -8, 0),
        number(2, 0),
        copy(3, 10),
        with(ADD, 3, -8),
        number(4, 1),
        number(5, 0),
        call(1),
    ];
    assert_eq!(tc_index(&body).reads, ALL);
}

#[test]
fn a_leftover_number_is_no_length() {
    // bpf_tcp_raw_check_syncookie_ipv4(&iph, &th): both of fixed size, r3 is left over.
    let body = [
        READ,
        store(H, 10, -6, 2),
        copy(1, 9),
        copy(2, 10),
        with(ADD, 2, -8),
        number(3, 2),
        call(1),
    ];
    assert_eq!(tc_index(&body).reads, ALL);
}

#[test]
fn memory_that_a_helper_writes_through_a_fixed_size_argument_is_unknown() {
    // bpf_strtol(buf, len, flags, &res) writes 8 octets at res, r5 is left over; the result masks tc_index.
    let body = [
        store_number(W, 10, -8, 0),
        store_number(W, 10, -4, 0),
        copy(4, 10),
        with(ADD, 4, -8),
        number(5, 4),
        call(1),
        load(W, 3, 10, -4),
        load(H, 2, 6, TC_INDEX),
        insn(0x5f, 2, 3, 0, 0),
        branch(JEQ, 2, 0, 0),
    ];
    assert_eq!(tc_index(&[&[copy(6, 1)], &body[..]].concat()).reads, ALL);
}

#[test]
fn a_subprogram_may_return_a_pointer_into_the_middle_of_the_packets_struct() {
    let program = [
        insn(0x85, 0, 1, 4, 1),
        load(H, 2, 0, TC_INDEX - 100),
        branch(JSET, 2, 1, 0),
        number(0, 0),
        EXIT,
        copy(0, 1),
        with(ADD, 0, 100),
        EXIT,
    ];
    assert_eq!(reads(&program) & 1, 1);
}

#[test]
fn a_subprogram_may_store_another_pointer_over_the_packets() {
    let program = [
        copy(6, 1),
        store(DW, 10, -8, 6),
        copy(2, 10),
        with(ADD, 2, -8),
        insn(0x85, 0, 1, 5, 1),
        load(DW, 3, 10, -8),
        load(H, 2, 3, TC_INDEX - 100),
        branch(JSET, 2, 1, 0),
        number(0, 0),
        EXIT,
        with(ADD, 1, 100),
        store(DW, 2, 0, 1),
        number(0, 0),
        EXIT,
    ];
    assert_eq!(reads(&program) & 1, 1);
}

#[test]
fn kernel_memory_at_a_number_may_be_the_packets() {
    // The packet's address went through a map: probe_read_kernel(stack, 2, *(u64 *)value).
    let body = [
        copy(6, 1),
        call(1),
        store(DW, 0, 0, 6),
        load(DW, 3, 0, 0),
        with(ADD, 3, TC_INDEX.into()),
        copy(1, 10),
        with(ADD, 1, -8),
        number(2, 2),
        call(PROBE),
    ];
    assert_eq!(run(&body).tc_index.reads, ALL);
}

#[test]
fn a_pointer_of_two_origins_and_distances_may_be_the_packets() {
    let program = [
        copy(6, 1),
        insn(0x85, 0, 1, 7, 1),
        branch(JEQ, 9, 0, 2),
        copy(0, 6),
        with(ADD, 0, 66),
        load(H, 2, 0, TC_INDEX - 66),
        branch(JSET, 2, 1, 0),
        number(0, 0),
        EXIT,
        copy(0, 1),
        EXIT,
    ];
    assert_eq!(reads(&program) & 1, 1);
}
