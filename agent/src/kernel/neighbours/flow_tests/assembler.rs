//! Assembles instructions by hand and analyses them.

use crate::kernel::datapath::programs::MapSize;
use crate::kernel::neighbours::{Entry, FieldUse, Helpers, Insn, Layout, Use, analyse};
use std::collections::BTreeMap;

/// Offsets of the fields in the tests' kernel.
pub const TC_INDEX: i16 = 160;
pub const TC_CLASSID: i16 = 46;
pub const DATA: i16 = 208;
/// Operand of calls of `bpf_probe_read_kernel`.
pub const PROBE: i32 = 77;

// Sizes of loads and stores, as in instruction codes.
pub const W: u8 = 0x00;
pub const H: u8 = 0x08;
pub const B: u8 = 0x10;
pub const DW: u8 = 0x18;

pub const ALL: u16 = u16::MAX;
pub const READS_ALL: FieldUse = used(ALL, 0, 0);

pub const fn used(reads: u16, sets: u16, clears: u16) -> FieldUse {
    FieldUse { reads, sets, clears }
}

pub const fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn {
        code,
        dst,
        src,
        off,
        imm,
    }
}

/// `dst = *(size *)(src + off)`
pub const fn load(size: u8, dst: u8, src: u8, off: i16) -> Insn {
    insn(0x61 | size, dst, src, off, 0)
}

/// `*(size *)(dst + off) = src`
pub const fn store(size: u8, dst: u8, off: i16, src: u8) -> Insn {
    insn(0x63 | size, dst, src, off, 0)
}

/// `*(size *)(dst + off) = imm`
pub const fn store_number(size: u8, dst: u8, off: i16, imm: i32) -> Insn {
    insn(0x62 | size, dst, 0, off, imm)
}

/// `dst = src`
pub const fn copy(dst: u8, src: u8) -> Insn {
    insn(0xbf, dst, src, 0, 0)
}

/// `dst = imm`
pub const fn number(dst: u8, imm: i32) -> Insn {
    insn(0xb7, dst, 0, 0, imm)
}

/// `dst OPERATION= imm` of 64 bits.
pub const fn with(operation: u8, dst: u8, imm: i32) -> Insn {
    insn(operation | 0x07, dst, 0, 0, imm)
}

/// `if dst CONDITION imm goto off`
pub const fn branch(condition: u8, dst: u8, imm: i32, off: i16) -> Insn {
    insn(condition | 0x05, dst, 0, off, imm)
}

pub const fn call(imm: i32) -> Insn {
    insn(0x85, 0, 0, 0, imm)
}

pub const ADD: u8 = 0x00;
pub const OR: u8 = 0x40;
pub const AND: u8 = 0x50;
pub const LSH: u8 = 0x60;
pub const RSH: u8 = 0x70;
pub const XOR: u8 = 0xa0;
pub const JEQ: u8 = 0x10;
pub const JSET: u8 = 0x40;
pub const EXIT: Insn = insn(0x95, 0, 0, 0, 0);
pub const READ: Insn = load(H, 2, 1, TC_INDEX);
pub const WRITE: Insn = store(H, 1, TC_INDEX, 2);

pub fn layout() -> Layout {
    Layout {
        tc_index: TC_INDEX.into(),
        tc_classid: TC_CLASSID.into(),
        probes: Some(vec![PROBE]),
        helpers: Helpers::read(HELPERS).into(),
    }
}

/// The sizes of the map with id 7.
pub fn maps() -> BTreeMap<u32, MapSize> {
    BTreeMap::from([(7, MapSize { key: 4, value: 8 })])
}

/// Calls of 9 redirect, of 10 look a key up, of 11 update an element, of 12 load octets of the packet.
const HELPERS: &str = "10000 T __bpf_call_base\n10009 T bpf_redirect\n1000a T trie_lookup_elem\n1000b T trie_update_elem\n\
                       1000c T bpf_skb_load_bytes\n";

/// Analyses a program: `body`, followed by `return 0`.
pub fn run(body: &[Insn]) -> Use {
    let program: Vec<Insn> = body.iter().copied().chain([number(0, 0), EXIT]).collect();
    analyse(&program, Entry::Packet, &layout(), &maps())
}

/// Analyses a program that leaves `tc_classid` alone; returns its possible use of `tc_index`.
pub fn tc_index(body: &[Insn]) -> FieldUse {
    let uses = run(body);
    assert_eq!(uses.tc_classid, FieldUse::NONE);
    uses.tc_index
}
