//! PASSED: the packet that this CPU's ingress hook let pass last, as its socket's Service does. The kernel forwards it on the same CPU before
//! the next one, but where it has to wait, as for a neighbour's address.

use crate::clock::Clock;
use aya_ebpf::btf_maps::PerCpuArray;
use aya_ebpf::macros::btf_map;
use epguard_common::{Addr, Packet};

/// Written here.
#[btf_map]
static PASSED: PerCpuArray<Passed, 1> = PerCpuArray::new();

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

/// Notes the packet.
#[inline(always)]
pub fn note_passed(packet: &Packet) {
    let Some(entry) = PASSED.get_ptr_mut(0) else { return };
    let passed =
        Passed { src: packet.src, dst: packet.dst, ports: ports(packet), at_ns: Clock::default().now_ns() };
    // SAFETY: this CPU's own element.
    unsafe { entry.write_volatile(passed) };
}

/// Whether the packet is the one that was noted.
#[inline(always)]
pub fn has_passed(packet: &Packet, now_ns: u64) -> bool {
    let Some(entry) = PASSED.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: as in `note_passed`; every bit pattern is a Passed.
    let Passed { src, dst, ports: noted, at_ns } = unsafe { entry.read_volatile() };
    differs(&src, &packet.src) | differs(&dst, &packet.dst) == 0
        && noted == ports(packet)
        && now_ns.saturating_sub(at_ns) < FORWARDED_NS
}

#[inline(always)]
fn differs(one: &Addr, other: &Addr) -> u32 {
    let (one, other) = (one.words(), other.words());
    (0..4).fold(0, |differs, word| differs | (one[word] ^ other[word]))
}

#[inline(always)]
const fn ports(packet: &Packet) -> u64 {
    packet.src_port as u64 | (packet.dst_port as u64) << 16 | (packet.protocol as u64) << 32
}
