//! Copies of a packet, as a bridge sends one out of each of its ports: a packet is judged once.

use crate::frame::Origin as _;
use crate::skb::Skb;
use aya_ebpf::btf_maps::PerCpuArray;
use aya_ebpf::macros::btf_map;
use epguard_common::{Judged, Reference};

/// The packet that was judged last.
#[btf_map]
static LAST: PerCpuArray<Judged, 1> = PerCpuArray::new();

/// Whether the packet is a copy of the one that was judged last, which had a connection.
#[inline(always)]
pub fn is_copy(skb: &Skb) -> bool {
    let Some(last) = LAST.get_ptr_mut(0) else {
        return false;
    };
    let reference = *skb.work.reference.get();
    // Without a connection it is none, and needs no clock.
    if Reference(reference).address().is_none() {
        return false;
    }
    let packet = Judged {
        reference,
        at_ns: skb.now_ns(),
        length: skb.length(),
        ifindex: skb.ifindex(),
        ports: skb.work.packet.get().ports(),
    };
    // SAFETY: this CPU's own element; every bit pattern is a Judged.
    unsafe {
        let is_copy = packet.is_copy_of(&last.read());
        if !is_copy {
            last.write(packet);
        }
        is_copy
    }
}
