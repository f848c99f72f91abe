//! Programs that a CNI could have beside epguard. They use packet fields as Cilium's programs do, and their verdicts
//! depend on these fields: a story about a neighbour fails if epguard changes these verdicts.
//!
//! The models are functions of Cilium 1.18 to 1.20, in `bpf/` of its repository: `bpf_lxc.c` (as of commit 00025c984637),
//! `lib/local_delivery.h` (02446a8c30b3), `lib/overloadable_skb.h`, `lib/proxy.h`, `lib/identity.h`, `lib/common.h`.
//!
//! `socket_lb` has cgroup programs: a load balancer at sockets.
#![no_std]
#![no_main]
#![allow(
    missing_docs,
    reason = "the program macros generate functions without a docstring"
)]
#![allow(
    clippy::inline_always,
    reason = "one function to the verifier, as Cilium's programs are"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "the program macros hand the context over"
)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "kernel fields and helpers' results are wider than what they hold"
)]

mod flags;
mod flow;
mod maps;
mod policy;
mod socket_lb;

use aya_ebpf::bindings::{TC_ACT_OK, TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::helpers::generated::bpf_redirect_peer;
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use flags::Fields;
use policy::Verdict;

/// Policy before the pod's interface: model `cil_to_container()` and `ipv4_policy()` of `bpf_lxc.c`, with endpoint routes.
/// TC egress of pod interfaces.
#[classifier]
pub fn to_container(ctx: TcContext) -> i32 {
    enforce(&ctx)
}

/// As `cil_to_container`, behind a tail call and under a meaningless name: model `tail_call_internal()` in
/// `cil_to_container()`, which itself reads no field. Without its target the packet is dropped, as with `DROP_EP_NOT_READY`.
#[classifier]
pub fn a(ctx: TcContext) -> i32 {
    maps::tail_call(&ctx);
    TC_ACT_SHOT
}

/// The target of [`a`].
#[classifier]
pub fn b(ctx: TcContext) -> i32 {
    enforce(&ctx)
}

/// Policy that any bit of `tc_index` switches off: other programs can use no bit of the field. No model in Cilium.
#[classifier]
pub fn to_container_greedy(ctx: TcContext) -> i32 {
    let carried = Fields::of(&ctx).tc_index();
    finish(policy::judge(&ctx, carried != 0), TC_ACT_UNSPEC)
}

/// Policy that reads no field that other programs could write.
#[classifier]
pub fn to_container_plain(ctx: TcContext) -> i32 {
    finish(policy::judge(&ctx, false), TC_ACT_UNSPEC)
}

/// Program at a pod's exit: model `cil_from_container()` of `bpf_lxc.c`, which clears the metadata first and accepts last.
/// `TC_ACT_OK` has the kernel write `tc_classid` into `tc_index`, for TCX programs and for filters of clsact.
/// TC ingress of pod interfaces.
#[classifier]
pub fn from_container(ctx: TcContext) -> i32 {
    Fields::of(&ctx).clear_meta();
    TC_ACT_OK
}

/// Program at a pod's exit with BPF host routing: model `local_delivery()` and `redirect_ep()` of `lib/local_delivery.h`. Policy is
/// judged at the source, then `bpf_redirect_peer` puts the packet into the destination's namespace, past the egress hooks
/// of its interface. TC ingress of pod interfaces, Linux 5.10.
#[classifier]
pub fn from_container_routed(ctx: TcContext) -> i32 {
    let fields = Fields::of(&ctx);
    fields.clear_meta();
    let flow = flow::parse(&ctx);
    if finish(
        policy::judge_flow(flow.as_ref(), fields.is_from_ingress_proxy()),
        TC_ACT_OK,
    ) == TC_ACT_SHOT
    {
        return TC_ACT_SHOT;
    }
    match flow.as_ref().and_then(maps::peer) {
        // SAFETY: takes numbers only.
        Some(ifindex) => unsafe { bpf_redirect_peer(ifindex, 0) as i32 },
        None => TC_ACT_OK,
    }
}

/// Counts packets by the `tc_index` that they carry, and changes nothing. Ingress of a pod's own interface.
#[classifier]
pub fn recorder(ctx: TcContext) -> i32 {
    maps::record(Fields::of(&ctx).tc_index());
    TC_ACT_UNSPEC
}

/// As `cil_to_container()` does, clears the metadata first and accepts at the end.
#[inline(always)]
fn enforce(ctx: &TcContext) -> i32 {
    let fields = Fields::of(ctx);
    fields.clear_meta();
    fields.inherit_proxy_from_mark();
    // No effect here: the call is there for its instructions, which Cilium's programs have at each hook.
    let _ = fields.skip_nodeport();
    finish(policy::judge(ctx, fields.is_from_ingress_proxy()), TC_ACT_OK)
}

/// Counts the verdict; `pass` is the return value for packets that the policy lets through.
#[inline(always)]
fn finish(verdict: Option<Verdict>, pass: i32) -> i32 {
    let Some(verdict) = verdict else { return pass };
    maps::count(verdict);
    if verdict as u32 == Verdict::Forbidden as u32 {
        TC_ACT_SHOT
    } else {
        pass
    }
}

/// Some helpers need a GPL-compatible licence.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
