//! GATE: which addresses the tables hold.

use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use core::ptr::addr_of;
use epguard_common::{BUCKETS, Gate, bucket};

#[btf_map]
static GATE: Array<Gate, 1> = Array::new();

/// The bits of an address's bucket; `None`: the table says nothing.
#[inline(always)]
pub fn bits(words: [u32; 4]) -> Option<u8> {
    let gate = GATE.get_ptr(0)?;
    // SAFETY: an element of an array map is never freed; every bit pattern is a Gate.
    unsafe {
        if addr_of!((*gate).valid).read_volatile() == 0 {
            return None;
        }
        let buckets = addr_of!((*gate).buckets).cast::<u8>();
        Some(buckets.add(bucket(words) & (BUCKETS - 1)).read_volatile())
    }
}

/// Whether packets of the node's own sockets carry a mark between egress hooks.
#[inline(always)]
pub fn relabels() -> bool {
    // SAFETY: as in `bits`.
    GATE.get_ptr(0)
        .is_none_or(|gate| unsafe { addr_of!((*gate).relabels).read_volatile() } != 0)
}
