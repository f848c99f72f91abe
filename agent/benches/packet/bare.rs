//! Programs of a few instructions, which the benchmark loads itself: none of them is in the shipped object.
//!
//! The *empty* program returns at once. The *spreader* writes the next destination of a pseudo-random sequence into the frame and
//! tail-calls the measured program, so that one test run visits many destinations.

use crate::bpf::{Kind, load, set_tail_call, tail_call_map};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

/// A program that passes every packet.
pub fn empty(kind: Kind) -> io::Result<OwnedFd> {
    load(kind, &[mov(0, pass(kind)), EXIT])
}

/// A spreader and the map with its program.
pub struct Spreader {
    program: OwnedFd,
    map: OwnedFd,
}

impl Spreader {
    /// For frames of this length whose last 4 octets, behind the packet, hold the state of the sequence. It writes the last 2
    /// octets of the destination, which lie at this offset: a number below `count`.
    pub fn new(kind: Kind, length: usize, destination: usize, count: u32) -> io::Result<Self> {
        let map = tail_call_map()?;
        let (length, destination) = (i16::try_from(length).unwrap(), i16::try_from(destination).unwrap());
        let (data, data_end) = if kind == Kind::Tc { (76, 80) } else { (0, 4) };
        let [map_low, map_high] = map_address(map.as_raw_fd());
        let spread = [
            mov_register(6, 1),
            load_word(2, 6, data),
            load_word(3, 6, data_end),
            mov_register(4, 2),
            instruction(0x07, 4, 0, 0, length.into()),
            instruction(0x2d, 4, 3, 14, 0),
            load_word(5, 2, length - 4),
            instruction(0x24, 5, 0, 0, 1_664_525),
            instruction(0x04, 5, 0, 0, 1_013_904_223),
            store_word(2, 5, length - 4),
            instruction(0x77, 5, 0, 0, 16),
            instruction(0x27, 5, 0, 0, count.cast_signed()),
            instruction(0x77, 5, 0, 0, 16),
            instruction(0xdc, 5, 0, 0, 16),
            instruction(0x6b, 2, 5, destination, 0),
            mov_register(1, 6),
            map_low,
            map_high,
            mov(3, 0),
            instruction(0x85, 0, 0, 0, TAIL_CALL),
            // Of an XDP program, `XDP_ABORTED`: the benchmark then stops, as the program was not called.
            mov(0, 0),
            EXIT,
        ];
        let program = load(kind, &spread)?;
        Ok(Self { program, map })
    }

    /// The spreader, with this program behind it.
    pub fn to(&self, program: BorrowedFd<'_>) -> io::Result<BorrowedFd<'_>> {
        set_tail_call(&self.map, program)?;
        Ok(self.program.as_fd())
    }
}

/// `bpf_tail_call`.
const TAIL_CALL: i32 = 12;
const EXIT: u64 = 0x95;
const XDP_PASS: i32 = 2;
const TC_ACT_UNSPEC: i32 = -1;

fn pass(kind: Kind) -> i32 {
    if kind == Kind::Tc { TC_ACT_UNSPEC } else { XDP_PASS }
}

fn mov(register: u8, value: i32) -> u64 {
    instruction(0xb7, register, 0, 0, value)
}

fn mov_register(to: u8, from: u8) -> u64 {
    instruction(0xbf, to, from, 0, 0)
}

fn load_word(to: u8, from: u8, offset: i16) -> u64 {
    instruction(0x61, to, from, offset, 0)
}

fn store_word(to: u8, from: u8, offset: i16) -> u64 {
    instruction(0x63, to, from, offset, 0)
}

/// `BPF_LD_IMM64` of a map's descriptor into register 2.
fn map_address(map: RawFd) -> [u64; 2] {
    [instruction(0x18, 2, 1, 0, map), 0]
}

/// `struct bpf_insn` on a little-endian machine.
fn instruction(code: u8, to: u8, from: u8, offset: i16, value: i32) -> u64 {
    u64::from(code)
        | u64::from(to | from << 4) << 8
        | u64::from(offset.cast_unsigned()) << 16
        | u64::from(value.cast_unsigned()) << 32
}
