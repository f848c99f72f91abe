//! GATE and `SECOND_GATE`: which addresses the tables hold.

use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use core::ptr::addr_of;
use epguard_common::{Gate, Hash};

#[btf_map]
static GATE: Array<Gate, 1> = Array::new();
/// Most packets end at GATE and never touch its memory.
#[btf_map]
static SECOND_GATE: Array<Gate, 1> = Array::new();

/// The buckets of GATE, or of both tables.
#[derive(Clone, Copy)]
pub struct Buckets {
    first: *const u8,
    second: Option<*const u8>,
}

/// The buckets of GATE; `None`: they do not show all addresses. `with_flows`: those of redirected
/// flows are wanted too.
#[inline(always)]
pub fn buckets(with_flows: bool) -> Option<Buckets> {
    let gate = GATE.get_ptr(0)?;
    let wanted = Gate::WRITTEN | if with_flows { Gate::SHOWS_FLOWS } else { 0 };
    if !is_valid(gate, wanted) {
        return None;
    }
    Some(Buckets {
        first: buckets_of(gate),
        second: None,
    })
}

/// The same of both tables; of GATE alone while the second does not show all addresses.
#[inline(always)]
pub fn both_buckets(with_flows: bool) -> Option<Buckets> {
    let first = buckets(with_flows)?;
    if !is_valid(GATE.get_ptr(0)?, Gate::HAS_SECOND) {
        return Some(first);
    }
    Some(Buckets {
        second: SECOND_GATE.get_ptr(0).map(buckets_of),
        ..first
    })
}

impl Buckets {
    /// The bits of an address.
    #[inline(always)]
    pub fn flags_at(self, words: [u32; 4]) -> u8 {
        let hash = Hash::of(words);
        // SAFETY: an element of an array map is never freed, and has so many buckets.
        unsafe {
            let flags = self.first.add(hash.first()).read_volatile();
            self.second.map_or(flags, |second| {
                flags & second.add(hash.second()).read_volatile()
            })
        }
    }
}

/// Whether [`Gate::valid`] has all of these bits.
#[inline(always)]
fn is_valid(gate: *const Gate, wanted: u32) -> bool {
    // SAFETY: an element of an array map is never freed; every bit pattern is a Gate.
    let valid = unsafe { addr_of!((*gate).valid).read_volatile() };
    valid & wanted == wanted
}

#[inline(always)]
fn buckets_of(gate: *const Gate) -> *const u8 {
    // SAFETY: a field of an element of an array map, not read here.
    unsafe { addr_of!((*gate).buckets) }.cast()
}
