//! How a decision is carried out, and how a packet becomes its own answer.
//!
//! From the egress hook the answer leaves by the interface by which the client's packet came in, in
//! the client's terms. One to a process of this node enters the stack in the name of the endpoint,
//! and conntrack undoes the DNAT; see [`way`]. From the ingress hook it goes straight back to the
//! sender, before DNAT. All carry [`ANSWER`](epguard_common::ANSWER), so that the hooks that they
//! pass do not judge them. An answer from XDP passes no hook.

mod early;
pub mod limit;
mod rewrite;
mod way;

pub use early::turn_round_early;
pub use way::{FoundWay, Seeker, find_way};

use crate::frame::{Frame as _, Origin as _};
use crate::route::names_its_sender;
use crate::skb::Skb;
use crate::{maps, redirect, turned};
use aya_ebpf::bindings::{__sk_buff, BPF_F_INGRESS, TC_ACT_SHOT, TC_ACT_UNSPEC, bpf_redir_neigh};
use aya_ebpf::helpers::generated::{bpf_redirect, bpf_redirect_neigh};
use aya_ebpf::programs::TcContext;
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use epguard_common::{Addr, Decision, Outcome, Reason, Vip, answer, can_answer};
use rewrite::Turned;
use way::Kind;

/// The hook that carries a decision out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// Before DNAT.
    Ingress,
    /// After DNAT.
    Egress,
}

/// Carries a decision out. `TC_ACT_UNSPEC` continues the chain (`TCX_NEXT`): our pass never
/// overrules another program.
#[inline(always)]
pub fn carry_out(ctx: &TcContext, decision: Decision, hook: Hook) -> i32 {
    match (decision, hook) {
        (Decision::Pass, _) => TC_ACT_UNSPEC,
        (Decision::Drop | Decision::DropUnanswered | Decision::DropUnanswerable, _) => TC_ACT_SHOT,
        (Decision::Reject, Hook::Egress) => send_answer(ctx.skb.skb),
        (Decision::Reject, Hook::Ingress) => send_back(ctx.skb.skb),
        (Decision::Redirect, _) => redirect(ctx.skb.skb),
        (Decision::Follow, _) => follow(ctx.skb.skb),
        (Decision::Reply, _) => turned::back(ctx.skb.skb),
    }
}

/// Opens a redirected flow. One that may not be redirected is rejected.
#[inline(always)]
fn redirect(context: *mut __sk_buff) -> i32 {
    if redirect::admit() != 0 && names_its_sender(context) != 0 {
        return follow(context);
    }
    if is_refusable(context) == 0 {
        return TC_ACT_SHOT;
    }
    if find_way(context, Seeker::AfterDnat as u32) == 0 {
        maps::count(Reason::Nothing, Outcome::Unanswerable, 0);
        return TC_ACT_SHOT;
    }
    send_answer(context)
}

/// Sends a packet of a redirected flow to the live endpoint.
#[inline(always)]
fn follow(context: *mut __sk_buff) -> i32 {
    if redirect::enter(context) == 0 {
        return redirect::fail(context);
    }
    redirect::advance(context);
    redirect::forth(context)
}

/// Counts a packet that may not be redirected, and returns whether it is rejected instead; 0 if
/// not.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn is_refusable(context: *mut __sk_buff) -> u32 {
    let skb = Skb::judged(context);
    maps::count(Reason::Nothing, Outcome::RedirectRefused, skb.length());
    let (Some(packet), Some((config, ..))) = (skb.packet(), maps::config()) else {
        return 0;
    };
    let answered = can_answer(&skb, packet, skb.is_to_many()) && limit::take_of_node(config);
    u32::from(answered)
}

/// Answers a packet where it enters.
#[inline(always)]
fn send_back(context: *mut __sk_buff) -> i32 {
    find_way(context, Seeker::BeforeDnat as u32);
    send_answer(context)
}

/// Makes the packet its own answer, and sends it by the way that was found. A global function: it
/// has a stack of its own, and the verifier checks it once for all callers. Linux 5.6.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn send_answer(context: *mut __sk_buff) -> i32 {
    let skb = Skb::judged(context);
    let Some(action) = send(&skb) else {
        maps::count(Reason::Nothing, Outcome::AnswerFailed, 0);
        return TC_ACT_SHOT;
    };
    action
}

#[inline(always)]
fn send(skb: &Skb) -> Option<i32> {
    let (packet, way) = (skb.packet()?, maps::way()?);
    if way.has_own_terms != 0 {
        maps::mean(Vip::of(packet));
    }
    let enters_elsewhere = way.kind == Kind::In as u32 && way.ifindex != skb.ifindex();
    let leaves_elsewhere = way.kind == Kind::Routed as u32 || way.kind == Kind::OnLink as u32;
    if skb.is_tagged() && (enters_elsewhere || leaves_elsewhere) {
        skb.remove_tag()?;
    }
    let mut turned = Turned::new(skb)?;
    answer(&mut turned, packet, maps::meant()?)?;
    if way.kind == Kind::In as u32 {
        turned.set_ends(way.station)?;
    } else if leaves_elsewhere {
        turned.make_header()?;
    } else {
        turned.swap_ends()?;
    }
    skb.make_answer();
    let ifindex = way.ifindex;
    // SAFETY: take numbers, and a parameter on the stack.
    let action = unsafe {
        if way.kind == Kind::In as u32 {
            bpf_redirect(ifindex, BPF_F_INGRESS.into())
        } else if way.kind == Kind::Routed as u32 {
            bpf_redirect_neigh(ifindex, null_mut(), 0, 0)
        } else if way.kind == Kind::OnLink as u32 {
            let mut hop = next_hop(&maps::meant()?.client);
            bpf_redirect_neigh(ifindex, &raw mut hop, HOP_SIZE, 0)
        } else {
            bpf_redirect(ifindex, 0)
        }
    };
    Some(action as i32)
}

/// The client as the next hop.
#[inline(always)]
fn next_hop(client: &Addr) -> bpf_redir_neigh {
    let words = client.words();
    // SAFETY: all-zero is a value of this struct of integers.
    let mut hop: bpf_redir_neigh = unsafe { MaybeUninit::zeroed().assume_init() };
    if client.is_v4() {
        hop.nh_family = AF_INET;
        hop.__bindgen_anon_1.ipv4_nh = words[3];
    } else {
        hop.nh_family = AF_INET6;
        hop.__bindgen_anon_1.ipv6_nh = words;
    }
    hop
}

#[allow(clippy::cast_possible_wrap, reason = "20 octets")]
const HOP_SIZE: i32 = size_of::<bpf_redir_neigh>() as i32;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
