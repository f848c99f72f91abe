//! The neighbour's policy: everything is allowed except the flows in FORBIDDEN.

use crate::flow::{self, Flow};
use crate::maps;
use aya_ebpf::programs::TcContext;

/// The policy's verdict on a packet, and its index in VERDICTS.
#[repr(u32)]
#[derive(Clone, Copy)]
pub enum Verdict {
    /// Let through unjudged, because a field marks it as a proxy's.
    Skipped = 0,
    /// Dropped.
    Forbidden = 1,
    /// Judged and let through.
    Allowed = 2,
}

/// The verdict, model `ipv4_policy()` of `bpf_lxc.c`: packets of the proxy skip the policy. None for packets without ports.
#[inline(always)]
pub fn judge(ctx: &TcContext, skip: bool) -> Option<Verdict> {
    judge_flow(flow::parse(ctx).as_ref(), skip)
}

/// As [`judge`].
#[inline(always)]
pub fn judge_flow(flow: Option<&Flow>, skip: bool) -> Option<Verdict> {
    let flow = flow?;
    Some(if skip {
        Verdict::Skipped
    } else if maps::is_forbidden(flow) {
        Verdict::Forbidden
    } else {
        Verdict::Allowed
    })
}
