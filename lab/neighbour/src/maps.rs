//! The maps. The lab's `neighbour` module has the same layouts.

use crate::flow::{Endpoint, Flow};
use crate::policy::Verdict;
use aya_ebpf::btf_maps::{HashMap, PerCpuArray, PerCpuHashMap, ProgramArray};
use aya_ebpf::macros::btf_map;
use aya_ebpf::programs::TcContext;

/// Flows that the policy drops. Written by the lab.
#[btf_map]
static FORBIDDEN: HashMap<Flow, u32, 64> = HashMap::new();
/// Packets by [`Verdict`].
#[btf_map]
static VERDICTS: PerCpuArray<u64, 3> = PerCpuArray::new();
/// Interface number of the pod that has an endpoint. Written by the lab.
#[btf_map]
static PEERS: HashMap<Endpoint, u32, 64> = HashMap::new();
/// Packets by the `tc_index` that they arrive with.
#[btf_map]
static ARRIVED: PerCpuHashMap<u32, u64, 4096> = PerCpuHashMap::new();
/// The policy behind the tail call. Written by the lab.
#[btf_map]
static CALLS: ProgramArray<1> = ProgramArray::new();

/// Whether the policy drops the flow.
#[inline(always)]
pub fn is_forbidden(flow: &Flow) -> bool {
    FORBIDDEN.get_ptr(flow).is_some()
}

/// Counts a packet.
#[inline(always)]
pub fn count(verdict: Verdict) {
    if let Some(count) = VERDICTS.get_ptr_mut(verdict as u32) {
        // SAFETY: this CPU's own element.
        unsafe { *count += 1 };
    }
}

/// The node's interface to the destination.
#[inline(always)]
pub fn peer(flow: &Flow) -> Option<u32> {
    // SAFETY: the lab replaces whole entries only.
    PEERS.get_ptr(flow.to).map(|ifindex| unsafe { *ifindex })
}

/// Counts a packet by its `tc_index`.
#[inline(always)]
pub fn record(tc_index: u32) {
    if let Some(count) = ARRIVED.get_ptr_mut(tc_index) {
        // SAFETY: this CPU's own value.
        unsafe { *count += 1 };
    } else {
        // A full map loses arrivals of new values; it holds thousands, and one wrong value fails a story.
        let _ = ARRIVED.insert(tc_index, 1, 0);
    }
}

/// Goes on in the program behind the tail call; returns if there is none.
#[inline(always)]
pub fn tail_call(ctx: &TcContext) {
    // SAFETY: the program takes the same context.
    unsafe { CALLS.tail_call(ctx, 0) };
}
