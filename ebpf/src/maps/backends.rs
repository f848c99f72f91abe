//! BACKENDS: the live endpoints that flows towards a denied one may go to.

use super::{KeyedMap, of_key};
use aya_ebpf::bindings::BPF_F_NO_PREALLOC;
use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::macros::btf_map;
use core::ptr::addr_of;
use epguard_common::{Backend, Backends, DenialKey, Packet, capacity};

#[btf_map]
static BACKENDS: KeyedMap<
    DenialKey,
    Backends,
    { capacity::BACKENDS },
    { BPF_F_NO_PREALLOC as usize },
> = HashMap::new();

/// Finds the live endpoint for a flow that opens towards a denied one; false if there is none. Not
/// inlined: the stack is short.
#[inline(never)]
pub fn choose_backend(packet: &Packet, target: &DenialKey, chosen: &mut Backend) -> bool {
    let Some(entry) = BACKENDS.get_ptr(target) else {
        return false;
    };
    // SAFETY: as in `of_key`; `choice` is below the length of `live`.
    let found = of_key(entry, target, |backends| unsafe {
        let count = addr_of!((*backends).count).read_volatile();
        let sticky = addr_of!((*backends).sticky).read_volatile();
        let Some(number) = Backends::choice(count, sticky, packet) else {
            return false;
        };
        *chosen = addr_of!((*backends).live)
            .cast::<Backend>()
            .add(number)
            .read();
        true
    });
    found == Some(true)
}
