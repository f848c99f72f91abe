//! The XDP program of uplinks: drops packets to orphan IPs, or answers them with a RST, before the
//! kernel makes an skb, as the egress hook would where they leave. That one gets all other packets.

use crate::reject::turn_round_early;
use crate::work::Work;
use crate::xdp_frame::XdpFrame;
use crate::{gate, maps, terminated};
use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_PASS};
use aya_ebpf::bindings::xdp_md;
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;
use epguard_common::Decision;

/// XDP of uplinks. Linux 5.18, for frames of several buffers.
#[xdp(frags)]
pub fn epguard_xdp(ctx: XdpContext) -> u32 {
    match judge_early(ctx.ctx) {
        Decision::Drop | Decision::DropUnanswered | Decision::DropUnanswerable => XDP_DROP,
        Decision::Reject => turn_round_early(ctx.ctx),
        _ => XDP_PASS,
    }
}

/// Judges a frame before its skb is made. The egress hook where it leaves counts and reports what
/// passes here.
#[inline(always)]
fn judge_early(context: *mut xdp_md) -> Decision {
    let Some(view) = maps::view() else {
        return Decision::Pass;
    };
    if view.terminated == 0 || !gate::asks_at_xdp(context, &view) {
        return Decision::Pass;
    }
    let Some(work) = Work::of_this_processor() else {
        return Decision::Pass;
    };
    if !parse(context, work) {
        return Decision::Pass;
    }
    let frame = XdpFrame::new(context, work);
    terminated::lift_sender(&frame);
    work.mean_destination();
    terminated::judge_by_ip(&frame, &view)
}

/// Not inlined: its stack is free again for the verdict.
#[inline(never)]
fn parse(context: *mut xdp_md, work: &Work) -> bool {
    XdpFrame::new(context, work).parse()
}
