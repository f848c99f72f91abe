//! COUNTERS and `DENIAL_COUNTS`: packets by outcome, of all denials and of each.

use aya_ebpf::bindings::BPF_F_NO_PREALLOC;
use aya_ebpf::btf_maps::{PerCpuArray, PerCpuHashMap};
use aya_ebpf::macros::btf_map;
use core::arch::asm;
use epguard_common::{
    Count, DenialCount, DenialKey, Outcome, Reason, capacity, counted_outcome, counter,
};

/// Written here, by [`counter`]. With the next one, the only memory of a processor that cgroup
/// hooks share with the programs that interrupt them: all of these only add.
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

/// Counts one packet, or one event beside a packet, in a TC or XDP program.
#[inline(always)]
pub fn count(reason: Reason, outcome: Outcome, bytes: u32) {
    count_packet::<false>(reason, outcome, bytes, false);
}

/// Counts one call, or one event beside it, in a cgroup hook.
#[inline(always)]
pub fn count_call(reason: Reason, outcome: Outcome) {
    count_packet::<true>(reason, outcome, 0, false);
}

/// Counts one packet, which may open a connection. `INTERRUPTED`: see
/// [`Origin`](crate::frame::Origin). Not inlined, for each copy would take its part of the stack.
#[inline(never)]
pub fn count_packet<const INTERRUPTED: bool>(
    reason: Reason,
    outcome: Outcome,
    bytes: u32,
    opens: bool,
) {
    add_at::<INTERRUPTED>(counter(reason, outcome), Count::one(bytes, opens));
}

/// Counts one packet of a denial, and by its [`counter`]. Not inlined, as `count_packet`.
#[inline(never)]
pub fn count_denied<const INTERRUPTED: bool>(
    key: &DenialKey,
    counter: u32,
    bytes: u32,
    opens: bool,
    now_ns: u64,
) {
    let one = Count::one(bytes, opens);
    add_at::<INTERRUPTED>(counter, one);
    let (Some(outcome), Some(counts)) = (counted_outcome(counter), DENIAL_COUNTS.get_ptr_mut(key))
    else {
        return;
    };
    // SAFETY: fields of this CPU's own value, which stays writable for the run of the program.
    let count = unsafe {
        (&raw mut (*counts).last_ns).write_volatile(now_ns);
        (&mut *counts).get_mut(outcome)
    };
    if let Some(count) = count {
        add::<INTERRUPTED>(count, one);
    }
}

#[inline(always)]
fn add_at<const INTERRUPTED: bool>(counter: u32, more: Count) {
    if let Some(count) = COUNTERS.get_ptr_mut(counter) {
        add::<INTERRUPTED>(count, more);
    }
}

#[inline(always)]
fn add<const INTERRUPTED: bool>(count: *mut Count, more: Count) {
    // SAFETY: fields of this CPU's own value.
    let fields = unsafe {
        [
            (&raw mut (*count).packets, more.packets),
            (&raw mut (*count).bytes, more.bytes),
            (&raw mut (*count).openings, more.openings),
        ]
    };
    for (field, more) in fields {
        if INTERRUPTED {
            add_at_once(field, more);
        } else {
            // SAFETY: as above; no other TC or XDP program interrupts this one on its processor.
            unsafe { field.write_volatile(field.read_volatile().wrapping_add(more)) };
        }
    }
}

/// One instruction: other programs interrupt a cgroup hook only before or after it. `core` has no
/// such addition for this target.
#[inline(always)]
fn add_at_once(field: *mut u64, more: u64) {
    // SAFETY: a field of a map value, aligned to 8 octets; clobbers nothing.
    unsafe {
        asm!(
            "lock *(u64 *)({field} + 0) += {more}",
            field = in(reg) field,
            more = in(reg) more,
            options(nostack),
        );
    }
}
