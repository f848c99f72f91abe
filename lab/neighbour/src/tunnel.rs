//! A tunnel whose device has no key of its own: each packet brings it along, or has none.

use crate::maps::{self, Event};
use aya_ebpf::bindings::{TC_ACT_OK, TC_ACT_SHOT, bpf_tunnel_key};
use aya_ebpf::helpers::generated::bpf_skb_get_tunnel_key;
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use core::mem::MaybeUninit;

/// Drops packets that did not come out of the tunnel: model `cil_from_overlay()` of
/// `bpf_overlay.c`, `DROP_NO_TUNNEL_KEY`. TC ingress of the tunnel's device.
#[classifier]
pub fn from_overlay(ctx: TcContext) -> i32 {
    let mut key = MaybeUninit::<bpf_tunnel_key>::uninit();
    // SAFETY: the program's own context, and as many octets as the key has.
    let failed = unsafe {
        bpf_skb_get_tunnel_key(
            ctx.skb.skb,
            key.as_mut_ptr(),
            size_of::<bpf_tunnel_key>() as u32,
            0,
        )
    };
    if failed == 0 {
        return TC_ACT_OK;
    }
    maps::count(Event::Keyless);
    TC_ACT_SHOT
}
