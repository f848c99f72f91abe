//! The neighbour's policy: everything is allowed that FORBIDDEN does not name.

use crate::flow::{self, Flow};
use crate::maps;
use aya_ebpf::programs::TcContext;

/// What the policy says of a packet, and its place in VERDICTS.
#[repr(u32)]
#[derive(Clone, Copy)]
pub enum Verdict {
    /// Let through unjudged, because a field says that a proxy sent it.
    Skipped = 0,
    /// Dropped.
    Forbidden = 1,
    /// Judged and let through.
    Allowed = 2,
}

/// Model `ipv4_policy()` of `bpf_lxc.c`: what comes from the proxy skips all of it. None for what has no ports.
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
