//! PASSED: packets that this CPU's ingress hook let pass lately, as their sockets' Services do, for
//! the egress hook: another run of another program, so that [`Work`](crate::work::Work) does not
//! reach it. The kernel forwards them on the same CPU, one after another or a list at a time, but
//! where they have to wait, as for a neighbour's address.

use crate::clock::Clock;
use aya_ebpf::btf_maps::PerCpuArray;
use aya_ebpf::macros::btf_map;
use epguard_common::{Addr, Packet};

/// Written here.
#[btf_map]
static PASSED: PerCpuArray<Passed, PLACES> = PerCpuArray::new();

/// A power of two. A packet that takes the place of another one ends its note.
const PLACES: usize = 16;

/// Longest time from one hook to the other.
const FORWARDED_NS: u64 = 1_000_000;

#[repr(C)]
#[derive(Clone, Copy)]
struct Passed {
    src: Addr,
    dst: Addr,
    ports: u64,
    at_ns: u64,
}

/// Records the packet.
#[inline(always)]
pub fn record_passed(packet: &Packet) {
    let Some(entry) = PASSED.get_ptr_mut(place(packet)) else {
        return;
    };
    let passed = Passed {
        src: packet.src,
        dst: packet.dst,
        ports: packet.ports(),
        at_ns: Clock::new().now_ns(),
    };
    // SAFETY: this CPU's own element.
    unsafe { entry.write_volatile(passed) };
}

/// Whether the packet was recorded.
#[inline(always)]
pub fn has_passed(packet: &Packet, now_ns: u64) -> bool {
    let Some(entry) = PASSED.get_ptr_mut(place(packet)) else {
        return false;
    };
    // SAFETY: as in `record_passed`; every bit pattern is a Passed.
    let Passed {
        src,
        dst,
        ports: recorded,
        at_ns,
    } = unsafe { entry.read_volatile() };
    differs(&src, &packet.src) | differs(&dst, &packet.dst) == 0
        && recorded == packet.ports()
        && now_ns.saturating_sub(at_ns) < FORWARDED_NS
}

#[inline(always)]
fn differs(one: &Addr, other: &Addr) -> u32 {
    let one = one.words();
    let other = other.words();
    let mut differs = 0;
    for word in 0..4 {
        differs |= one[word] ^ other[word];
    }
    differs
}

/// Packets of one connection have the same.
#[inline(always)]
const fn place(packet: &Packet) -> u32 {
    (packet.src_port ^ packet.dst_port) as u32 % PLACES as u32
}
