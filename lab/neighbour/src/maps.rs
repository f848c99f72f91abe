//! The maps. The lab's `neighbour` module has the same layouts.

use crate::flow::{Endpoint, Flow};
use crate::snapshot::{FIELDS, Snapshot};
use aya_ebpf::btf_maps::{HashMap, PerCpuArray};
use aya_ebpf::macros::btf_map;

/// What became of a packet, and its index in COUNTS.
#[repr(u32)]
#[derive(Clone, Copy)]
pub enum Event {
    /// Let through unjudged, because a field marks it as a proxy's.
    Skipped = 0,
    /// Dropped by the policy.
    Forbidden = 1,
    /// Judged by the policy and let through.
    Allowed = 2,
    /// Its fields were overwritten.
    Scrambled = 3,
    /// Compared behind epguard's program: nothing has changed.
    Same = 4,
    /// Let through unjudged, as a reply of a tracked connection.
    Reply = 5,
    /// Dropped, as it entered at a tunnel without the tunnel's key.
    Keyless = 6,
}

/// Flows that the policy drops. Written by the lab.
#[btf_map]
static FORBIDDEN: HashMap<Flow, u32, 64> = HashMap::new();
/// Packets by [`Event`].
#[btf_map]
static COUNTS: PerCpuArray<u64, 7> = PerCpuArray::new();
/// Interface number of the pod that has an endpoint. Written by the lab.
#[btf_map]
static PEERS: HashMap<Endpoint, u32, 64> = HashMap::new();
/// The packet before epguard's program.
#[btf_map]
static NOTED: PerCpuArray<Snapshot, 1> = PerCpuArray::new();
/// Packets by the field that epguard's program has changed.
#[btf_map]
static CHANGED: PerCpuArray<u64, FIELDS> = PerCpuArray::new();

/// Whether the policy drops the flow.
#[inline(always)]
pub fn is_forbidden(flow: &Flow) -> bool {
    FORBIDDEN.get_ptr(flow).is_some()
}

/// Counts a packet.
#[inline(always)]
pub fn count(event: Event) {
    increment(COUNTS.get_ptr_mut(event as u32));
}

/// The node's interface to the destination.
#[inline(always)]
pub fn peer(flow: &Flow) -> Option<u32> {
    // SAFETY: the lab replaces whole entries only.
    PEERS.get_ptr(flow.to).map(|ifindex| unsafe { *ifindex })
}

/// This CPU's place for a packet.
#[inline(always)]
pub fn noted() -> Option<&'static mut Snapshot> {
    // SAFETY: this CPU's own element; no other program uses it until this one ends. Every bit
    // pattern is a Snapshot.
    NOTED.get_ptr_mut(0).map(|noted| unsafe { &mut *noted })
}

/// Counts a packet whose field has changed.
#[inline(always)]
pub fn count_changed(field: usize) {
    increment(CHANGED.get_ptr_mut(field as u32));
}

#[inline(always)]
fn increment(count: Option<*mut u64>) {
    if let Some(count) = count {
        // SAFETY: this CPU's own element.
        unsafe { *count += 1 };
    }
}
