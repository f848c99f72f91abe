//! The datapath. The programs carry decisions out; `epguard-common` makes them.
//!
//! The *egress hook* sees packets that leave towards a pod or the node's outside, after DNAT, and
//! judges them: by the Service that their connection was aimed at, or by the IP itself. The
//! *ingress hook* sees packets that enter the node's stack: replies of redirected flows, and
//! packets of sockets that a load balancer has connected. Beside one, cgroup hooks judge calls.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]
#![allow(
    missing_docs,
    reason = "the program macros generate functions without a docstring"
)]
#![allow(
    clippy::inline_always,
    reason = "one function to the verifier: no stack frame of its own"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "the program macros hand the context over"
)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "kernel fields are wider than what they hold"
)]

mod cilium;
mod clock;
mod conntrack;
mod copies;
mod egress;
mod found;
mod frame;
mod gate;
mod ingress;
mod linear;
mod link;
mod lookup;
mod maps;
mod records;
mod redirect;
mod reject;
mod route;
mod skb;
mod socket;
mod socket_lb;
mod tcp_flags;
mod telemetry;
mod terminated;
mod work;
mod xdp;
mod xdp_frame;

use aya_ebpf::bindings::{__sk_buff, TC_ACT_UNSPEC};
use aya_ebpf::macros::{cgroup_sock_addr, classifier};
use aya_ebpf::programs::{SockAddrContext, TcContext};
use epguard_common::Decision;
use redirect::{give_way_to_own_connection, is_reply};
use reject::{Hook, carry_out};
use skb::parse_any;
use socket_lb::Kind;
use work::Work;

/// The ingress hook: TC ingress of pod interfaces and uplinks. TCX from Linux 6.6.
#[classifier]
pub fn epguard_from(ctx: TcContext) -> i32 {
    let context = ctx.skb.skb;
    if !asks_at_ingress(context) {
        return TC_ACT_UNSPEC;
    }
    carry_out(context, judge_ingress(context), Hook::Ingress)
}

/// Not inlined: its stack is free again while the decision is carried out.
#[inline(never)]
fn judge_ingress(context: *mut __sk_buff) -> Decision {
    let Some(work) = Work::of_this_processor() else {
        return Decision::Pass;
    };
    if !parse_any(context, work) {
        return Decision::Pass;
    }
    match ingress::judge_by_socket(context, work) {
        None | Some(Decision::Pass) => judge_reply(context),
        Some(denied) => denied,
    }
}

/// The egress hook: TC egress of pod interfaces and uplinks. TCX from Linux 6.6.
#[classifier]
pub fn epguard_to(ctx: TcContext) -> i32 {
    let context = ctx.skb.skb;
    if !asks_at_egress(context) {
        return TC_ACT_UNSPEC;
    }
    carry_out(context, judge_egress::<false>(context), Hook::Egress)
}

#[inline(always)]
fn judge_egress<const TEST: bool>(context: *mut __sk_buff) -> Decision {
    let Some(work) = Work::of_this_processor() else {
        return Decision::Pass;
    };
    give_way_to_own_connection::<TEST>(context, work);
    if !parse_any(context, work) {
        return Decision::Pass;
    }
    egress::judge_leaving::<TEST>(context, work)
}

/// Both hooks in one program, with a conntrack entry that the tests give: a test run has none.
#[classifier]
pub fn epguard_selftest(ctx: TcContext) -> i32 {
    let context = ctx.skb.skb;
    if asks_at_ingress(context) {
        let decision = judge_reply_alone(context);
        if decision != Decision::Pass {
            return carry_out(context, decision, Hook::Ingress);
        }
    }
    if !asks_at_egress(context) {
        return TC_ACT_UNSPEC;
    }
    carry_out(context, judge_egress::<true>(context), Hook::Egress)
}

#[inline(always)]
fn judge_reply_alone(context: *mut __sk_buff) -> Decision {
    let Some(work) = Work::of_this_processor() else {
        return Decision::Pass;
    };
    if !parse_any(context, work) {
        return Decision::Pass;
    }
    judge_reply(context)
}

/// Not inlined, as the other gate: its stack is free again for what follows. Linux 6.1 refuses the
/// hooks else.
#[inline(never)]
fn asks_at_ingress(context: *mut __sk_buff) -> bool {
    gate::asks_at_ingress(context)
}

#[inline(never)]
fn asks_at_egress(context: *mut __sk_buff) -> bool {
    gate::asks_at_egress(context)
}

/// Whether the packet is a reply of a redirected flow.
#[inline(always)]
fn judge_reply(context: *mut __sk_buff) -> Decision {
    if is_reply(context) != 0 {
        Decision::Reply
    } else {
        Decision::Pass
    }
}

/// All sockets of the machine, before a socket load balancer. Attached only where there is one, as
/// all that follow.
#[cgroup_sock_addr(connect4)]
pub fn epguard_before_connect4(ctx: SockAddrContext) -> i32 {
    socket_lb::before(socket_lb::destination_v4(&ctx), &ctx, Kind::Connect);
    ALLOW
}

/// As `epguard_before_connect4`.
#[cgroup_sock_addr(connect6)]
pub fn epguard_before_connect6(ctx: SockAddrContext) -> i32 {
    socket_lb::before(socket_lb::destination_v6(&ctx), &ctx, Kind::Connect);
    ALLOW
}

/// As `epguard_before_connect4`.
#[cgroup_sock_addr(sendmsg4)]
pub fn epguard_before_sendmsg4(ctx: SockAddrContext) -> i32 {
    socket_lb::before(socket_lb::destination_v4(&ctx), &ctx, Kind::Send);
    ALLOW
}

/// As `epguard_before_connect4`.
#[cgroup_sock_addr(sendmsg6)]
pub fn epguard_before_sendmsg6(ctx: SockAddrContext) -> i32 {
    socket_lb::before(socket_lb::destination_v6(&ctx), &ctx, Kind::Send);
    ALLOW
}

/// All sockets of the machine, after a socket load balancer.
#[cgroup_sock_addr(connect4)]
pub fn epguard_after_connect4(ctx: SockAddrContext) -> i32 {
    socket_lb::after::<false>(socket_lb::destination_v4(&ctx), &ctx, Kind::Connect)
}

/// As `epguard_after_connect4`.
#[cgroup_sock_addr(connect6)]
pub fn epguard_after_connect6(ctx: SockAddrContext) -> i32 {
    socket_lb::after::<true>(socket_lb::destination_v6(&ctx), &ctx, Kind::Connect)
}

/// As `epguard_after_connect4`.
#[cgroup_sock_addr(sendmsg4)]
pub fn epguard_after_sendmsg4(ctx: SockAddrContext) -> i32 {
    socket_lb::after::<false>(socket_lb::destination_v4(&ctx), &ctx, Kind::Send)
}

/// As `epguard_after_connect4`.
#[cgroup_sock_addr(sendmsg6)]
pub fn epguard_after_sendmsg6(ctx: SockAddrContext) -> i32 {
    socket_lb::after::<true>(socket_lb::destination_v6(&ctx), &ctx, Kind::Send)
}

/// A cgroup hook that returns 1 lets the system call go on.
const ALLOW: i32 = 1;

/// Several helpers need a GPL-compatible licence.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
