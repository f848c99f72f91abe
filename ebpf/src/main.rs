//! The datapath. The programs carry decisions out; `epguard-common` makes them.
//!
//! The *ingress hook* sees packets that enter the node's stack, before DNAT, and writes which Service they are aimed at. The
//! *egress hook* sees packets that leave towards a pod, after DNAT, and judges them. Packets of the node's own sockets pass no
//! ingress hook; the cgroup hooks follow those sockets.
#![no_std]
#![no_main]
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

mod aimed;
mod carrier;
mod clock;
mod direct;
mod egress;
mod flow_entry;
mod flows;
mod frame;
mod ingress;
mod link;
mod maps;
mod note;
mod redirect;
mod redirected;
mod reject;
mod route;
mod skb;
mod sockets;
mod tcp_flags;
mod telemetry;
mod turned;
mod xdp;

use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_PASS};
use aya_ebpf::bindings::{__sk_buff, TC_ACT_UNSPEC};
use aya_ebpf::macros::{cgroup_sock, cgroup_sock_addr, classifier, xdp};
use aya_ebpf::programs::{SockAddrContext, SockContext, TcContext, XdpContext};
use epguard_common::Decision;
use reject::{Hook, carry_out, turn_round_early};
use skb::{Skb, parse_packet};
use xdp::Raw;

/// The ingress hook: TC ingress of pod interfaces and uplinks. TCX from Linux 6.6.
#[classifier]
pub fn epguard_from(ctx: TcContext) -> i32 {
    if maps::active().is_none() {
        return TC_ACT_UNSPEC;
    }
    let parsed = parse_packet(ctx.skb.skb);
    carry_out(&ctx, judge_ingress(ctx.skb.skb, parsed), Hook::Ingress)
}

/// The egress hook: TC egress of pod interfaces and uplinks. TCX from Linux 6.6.
#[classifier]
pub fn epguard_to(ctx: TcContext) -> i32 {
    if maps::active().is_none() {
        return TC_ACT_UNSPEC;
    }
    let parsed = parse_packet(ctx.skb.skb);
    note::note(ctx.skb.skb, parsed);
    carry_out(&ctx, judge_egress(ctx.skb.skb, parsed), Hook::Egress)
}

/// Both hooks in one program: a program test run can't set `tc_index`, so the tests' tables of packets run through this one.
#[classifier]
pub fn epguard_selftest(ctx: TcContext) -> i32 {
    let parsed = parse_packet(ctx.skb.skb);
    match judge_ingress(ctx.skb.skb, parsed) {
        Decision::Pass => {
            note::note(ctx.skb.skb, parsed);
            carry_out(&ctx, judge_egress(ctx.skb.skb, parsed), Hook::Egress)
        }
        denied => carry_out(&ctx, denied, Hook::Ingress),
    }
}

/// Not inlined: its stack is free again while the decision is carried out.
#[inline(never)]
fn judge_ingress(context: *mut __sk_buff, parsed: u32) -> Decision {
    ingress::judge(&Skb::new(context, parsed))
}

/// As `judge_ingress`.
#[inline(never)]
fn judge_egress(context: *mut __sk_buff, parsed: u32) -> Decision {
    egress::judge(&Skb::new(context, parsed))
}

/// XDP of uplinks: drops packets, or answers them with a RST, before the kernel makes an skb, as the TC program there would.
/// That one gets all other packets. Linux 5.18, for frames of several buffers.
#[xdp(frags)]
pub fn epguard_xdp(ctx: XdpContext) -> u32 {
    match direct::judge_early(&Raw(ctx.ctx)) {
        Decision::Drop | Decision::DropUnanswered | Decision::DropUncaptured => XDP_DROP,
        Decision::Reject => turn_round_early(ctx.ctx),
        _ => XDP_PASS,
    }
}

/// UDP sockets of the node itself, at their creation. Linux 4.10.
#[cgroup_sock(sock_create)]
pub fn epguard_socket(ctx: SockContext) -> i32 {
    sockets::create(&ctx);
    ALLOW
}

/// Sockets of the node itself, Linux 4.17.
#[cgroup_sock_addr(connect4)]
pub fn epguard_connect4(ctx: SockAddrContext) -> i32 {
    sockets::connect(sockets::destination_v4(&ctx), &ctx);
    ALLOW
}

/// As `epguard_connect4`.
#[cgroup_sock_addr(connect6)]
pub fn epguard_connect6(ctx: SockAddrContext) -> i32 {
    sockets::connect(sockets::destination_v6(&ctx), &ctx);
    ALLOW
}

/// Unconnected UDP of the node itself, Linux 4.18.
#[cgroup_sock_addr(sendmsg4)]
pub fn epguard_sendmsg4(ctx: SockAddrContext) -> i32 {
    sockets::send(sockets::destination_v4(&ctx), &ctx);
    ALLOW
}

/// As `epguard_sendmsg4`.
#[cgroup_sock_addr(sendmsg6)]
pub fn epguard_sendmsg6(ctx: SockAddrContext) -> i32 {
    sockets::send(sockets::destination_v6(&ctx), &ctx);
    ALLOW
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
