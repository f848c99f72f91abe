//! COUNTERS and `DENIAL_COUNTS`: packets by outcome, of all denials and of each.

use aya_ebpf::bindings::BPF_F_NO_PREALLOC;
use aya_ebpf::btf_maps::{PerCpuArray, PerCpuHashMap};
use aya_ebpf::macros::btf_map;
use epguard_common::{
    Count, DenialCount, DenialKey, Outcome, Packet, Reason, Slot, capacity, counted_outcome, counter,
};

/// Written here, by [`counter`].
#[btf_map]
static COUNTERS: PerCpuArray<Count, { capacity::COUNTERS }> = PerCpuArray::new();
/// The agent adds the keys; the programs count the values.
#[btf_map]
static DENIAL_COUNTS: PerCpuHashMap<
    DenialKey,
    DenialCount,
    { capacity::DENIAL_COUNTS },
    { BPF_F_NO_PREALLOC as usize },
> = PerCpuHashMap::new();

/// Counts one packet, or one event beside a packet.
#[inline(always)]
pub fn count(reason: Reason, outcome: Outcome, bytes: u32) {
    count_packet(reason, outcome, bytes, false);
}

/// Counts one packet, which may open a connection. Not inlined, for each copy would take its part of the stack.
#[inline(never)]
pub fn count_packet(reason: Reason, outcome: Outcome, bytes: u32, opens: bool) {
    add_at(counter(reason, outcome), Count::one(bytes, opens));
}

/// Counts one packet of a denial: of an endpoint, or without a slot of an IP; and by its [`counter`]. Not inlined, as
/// `count_packet`.
#[inline(never)]
pub fn count_denied(packet: &Packet, slot: Slot, counter: u32, bytes: u32, now_ns: u64) {
    let one = Count::one(bytes, packet.opens());
    add_at(counter, one);
    let Some(outcome) = counted_outcome(counter) else {
        return;
    };
    let target = if slot.is_some() {
        DenialKey::of(packet, slot)
    } else {
        DenialKey::of_ip(packet.dst)
    };
    let Some(counts) = DENIAL_COUNTS.get_ptr_mut(target) else {
        return;
    };
    // SAFETY: fields of this CPU's own value, which stays writable for the run of the program.
    let count = unsafe {
        (&raw mut (*counts).last_ns).write_volatile(now_ns);
        (&mut *counts).of(outcome)
    };
    if let Some(count) = count {
        add(count, one);
    }
}

#[inline(always)]
fn add_at(counter: u32, more: Count) {
    if let Some(count) = COUNTERS.get_ptr_mut(counter) {
        add(count, more);
    }
}

#[inline(always)]
fn add(count: *mut Count, more: Count) {
    // SAFETY: this CPU's own value, and a program of ours is not interrupted by another one on it.
    unsafe {
        let (packets, bytes) = (&raw mut (*count).packets, &raw mut (*count).bytes);
        let openings = &raw mut (*count).openings;
        packets.write_volatile(packets.read_volatile().wrapping_add(more.packets));
        bytes.write_volatile(bytes.read_volatile().wrapping_add(more.bytes));
        openings.write_volatile(openings.read_volatile().wrapping_add(more.openings));
    }
}
