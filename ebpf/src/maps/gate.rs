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

/// The buckets of GATE; `None`: they do not show all addresses. `with_flows`: those of redirected flows are wanted too.
#[inline(always)]
pub fn buckets(with_flows: bool) -> Option<Buckets> {
    Some(Buckets { first: shown(&GATE, with_flows)?, second: None })
}

/// The same of both tables; of GATE alone while the second does not show all addresses.
#[inline(always)]
pub fn both_buckets(with_flows: bool) -> Option<Buckets> {
    Some(Buckets { first: shown(&GATE, with_flows)?, second: shown(&SECOND_GATE, with_flows) })
}

impl Buckets {
    /// The bits of an address.
    #[inline(always)]
    pub fn flags_at(self, words: [u32; 4]) -> u8 {
        let hash = Hash::of(words);
        // SAFETY: an element of an array map is never freed, and has so many buckets.
        unsafe {
            let flags = self.first.add(hash.first()).read_volatile();
            self.second.map_or(flags, |second| flags & second.add(hash.second()).read_volatile())
        }
    }
}

/// The buckets of a table; `None`: it does not show all addresses.
#[inline(always)]
fn shown(table: &Array<Gate, 1>, with_flows: bool) -> Option<*const u8> {
    let gate = table.get_ptr(0)?;
    // SAFETY: an element of an array map is never freed; every bit pattern is a Gate.
    let (valid, buckets) = unsafe { (addr_of!((*gate).valid).read_volatile(), addr_of!((*gate).buckets)) };
    let wanted = Gate::WRITTEN | if with_flows { Gate::SHOWS_FLOWS } else { 0 };
    (valid & wanted == wanted).then_some(buckets.cast())
}
