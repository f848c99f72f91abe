//! GATE: which addresses the tables hold.

use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use core::ptr::addr_of;
use epguard_common::{BUCKETS, Gate, bucket};

#[btf_map]
static GATE: Array<Gate, 1> = Array::new();

/// The buckets of GATE.
#[derive(Clone, Copy)]
pub struct Buckets(*const u8);

/// The buckets; `None`: they do not show all addresses. `with_flows`: those of redirected flows are wanted too.
#[inline(always)]
pub fn buckets(with_flows: bool) -> Option<Buckets> {
    let gate = GATE.get_ptr(0)?;
    // SAFETY: an element of an array map is never freed; every bit pattern is a Gate.
    let (valid, buckets) = unsafe { (addr_of!((*gate).valid).read_volatile(), addr_of!((*gate).buckets)) };
    let wanted = Gate::WRITTEN | if with_flows { Gate::SHOWS_FLOWS } else { 0 };
    (valid & wanted == wanted).then_some(Buckets(buckets.cast()))
}

impl Buckets {
    /// The bits of an address's bucket.
    #[inline(always)]
    pub fn flags_at(self, words: [u32; 4]) -> u8 {
        // SAFETY: as in `buckets`.
        unsafe { self.0.add(bucket(words) & (BUCKETS - 1)).read_volatile() }
    }
}
