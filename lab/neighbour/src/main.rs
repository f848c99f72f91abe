//! Programs that a CNI could have beside epguard. Some use packet fields as Cilium's programs do,
//! and their verdicts depend on these fields: a story fails if epguard changes these verdicts. One
//! writes all fields, and two compare them before and behind epguard's programs.
//!
//! The models are functions of Cilium 1.18 to 1.20, in `bpf/` of its repository: `bpf_lxc.c` (as of
//! commit 00025c984637), `lib/local_delivery.h` (02446a8c30b3), `lib/overloadable_skb.h`,
//! `lib/proxy.h`, `lib/identity.h`, `lib/common.h`.
//!
//! `socket_lb` and `packet_lb` are a load balancer, at sockets and per packet. `tunnel` demands the
//! key of a tunnel's packets.
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
mod packet_lb;
mod policy;
mod snapshot;
mod socket_lb;
mod tunnel;

use aya_ebpf::bindings::{TC_ACT_OK, TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::helpers::generated::bpf_redirect_peer;
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use flags::Fields;
use maps::Event;
use packet_lb::connections::{EGRESS, INGRESS, is_reply, track};

/// Policy before the pod's interface: model `cil_to_container()` and `ipv4_policy()` of
/// `bpf_lxc.c`, with endpoint routes. Clears the metadata first and accepts last. A reply skips the
/// policy, and a packet that it allows is tracked. TC egress of pod interfaces.
#[classifier]
pub fn to_container(ctx: TcContext) -> i32 {
    let fields = Fields::of(&ctx);
    fields.clear_meta();
    fields.inherit_proxy_from_mark();
    let packet = packet_lb::parse(&ctx);
    if packet
        .as_ref()
        .is_some_and(|packet| is_reply(packet, INGRESS))
    {
        maps::count(Event::Reply);
        return TC_ACT_OK;
    }
    let flow = flow::parse(&ctx);
    let action = finish(policy::judge(flow.as_ref(), fields.is_from_ingress_proxy()));
    if let Some(packet) = packet
        && action == TC_ACT_OK
    {
        track(&packet, INGRESS, 0);
    }
    action
}

/// Program at a pod's exit: model `cil_from_container()` of `bpf_lxc.c`, which clears the metadata
/// first and accepts last. It tracks each packet, also one that another program has put there in
/// the pod's name. `TC_ACT_OK` has the kernel write `tc_classid` into `tc_index`, for TCX programs
/// and for filters of clsact. TC ingress of pod interfaces.
#[classifier]
pub fn from_container(ctx: TcContext) -> i32 {
    Fields::of(&ctx).clear_meta();
    if let Some(packet) = packet_lb::parse(&ctx) {
        track(&packet, EGRESS, 0);
    }
    TC_ACT_OK
}

/// Program at a pod's exit with BPF host routing: model `local_delivery()` and `redirect_ep()` of
/// `lib/local_delivery.h`. Policy is judged at the source, then `bpf_redirect_peer` puts the packet
/// into the destination's namespace, past the egress hooks of its interface. TC ingress of pod
/// interfaces, Linux 5.10.
#[classifier]
pub fn from_container_routed(ctx: TcContext) -> i32 {
    let fields = Fields::of(&ctx);
    fields.clear_meta();
    let flow = flow::parse(&ctx);
    if finish(policy::judge(flow.as_ref(), fields.is_from_ingress_proxy())) == TC_ACT_SHOT {
        return TC_ACT_SHOT;
    }
    match flow.as_ref().and_then(maps::peer) {
        // SAFETY: takes numbers only.
        Some(ifindex) => unsafe { bpf_redirect_peer(ifindex, 0) as i32 },
        None => TC_ACT_OK,
    }
}

/// Writes a new value into every field that programs may write, and goes on. No model: other
/// programs may use these fields for anything. Any hook.
#[classifier]
pub fn scramble(ctx: TcContext) -> i32 {
    Fields::of(&ctx).scramble();
    maps::count(Event::Scrambled);
    TC_ACT_UNSPEC
}

/// Notes the packet's fields and octets, for [`after`]. Before epguard's program at the same hook.
#[classifier]
pub fn before(ctx: TcContext) -> i32 {
    snapshot::note(&ctx);
    TC_ACT_UNSPEC
}

/// Compares the packet with what [`before`] has noted: no other packet passes this CPU's hooks in
/// between.
#[classifier]
pub fn after(ctx: TcContext) -> i32 {
    snapshot::compare(&ctx);
    TC_ACT_UNSPEC
}

/// Counts the verdict. `TC_ACT_OK` ends the chain, as Cilium's programs do.
#[inline(always)]
fn finish(verdict: Option<Event>) -> i32 {
    let Some(verdict) = verdict else {
        return TC_ACT_OK;
    };
    maps::count(verdict);
    if verdict as u32 == Event::Forbidden as u32 {
        TC_ACT_SHOT
    } else {
        TC_ACT_OK
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
