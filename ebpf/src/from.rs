//! Entering the stack, before DNAT: which Service is the packet aimed at?

use crate::{maps, skb};
use aya_ebpf::programs::TcContext;
use epguard_common::{Slot, Vip};

/// Writes the packet's intent while any Service is affected; what is aimed elsewhere gets none, so that nothing
/// older sticks to it.
#[inline(always)]
pub fn mark(ctx: &TcContext) {
    let affected = maps::view().is_some_and(|view| view.suspects != 0);
    if !affected {
        return;
    }
    skb::write_intent(ctx, intent(ctx));
}

#[inline(always)]
fn intent(ctx: &TcContext) -> Slot {
    let Some(packet) = skb::packet(ctx) else {
        return Slot::NONE;
    };
    if !packet.transport.has_ports() {
        return Slot::NONE;
    }
    maps::service(&Vip {
        addr: packet.dst,
        port: packet.dst_port,
        protocol: packet.protocol,
        reserved: 0,
    })
}
