//! How a decision is carried out, and how a packet becomes its own answer.
//!
//! At the egress hook the answer enters the stack again where the packet was leaving, as if the pod had sent it: conntrack
//! undoes the DNAT on its way to the client. From the ingress hook it goes straight back to the sender, before DNAT. Both carry
//! [`ANSWER`](epguard_common::ANSWER), so that they lift no denial at the hooks that they pass. An answer from XDP
//! passes no hook.

mod early;
pub mod limit;
mod rewrite;

pub use early::turn_round_early;

use crate::frame::{Frame as _, Origin as _};
use crate::route::names_its_sender;
use crate::skb::Skb;
use crate::{maps, redirect, turned};
use aya_ebpf::bindings::{__sk_buff, BPF_F_INGRESS, TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::helpers::generated::{bpf_clone_redirect, bpf_redirect};
use aya_ebpf::programs::TcContext;
use epguard_common::{Decision, Outcome, Reason, answer, can_answer};
use rewrite::Turned;

/// The hook that carries a decision out.
#[derive(Clone, Copy)]
pub enum Hook {
    /// Before DNAT: an answer leaves where the packet entered.
    Ingress,
    /// After DNAT: an answer enters the stack where the packet was leaving.
    Egress,
}

/// Carries a decision out. `TC_ACT_UNSPEC` continues the chain (`TCX_NEXT`): our pass never overrules another program.
#[inline(always)]
pub fn carry_out(ctx: &TcContext, decision: Decision, hook: Hook) -> i32 {
    match (decision, hook) {
        (Decision::Pass, _) => TC_ACT_UNSPEC,
        (Decision::Drop | Decision::DropUnanswered, _) => TC_ACT_SHOT,
        (Decision::Reject, Hook::Egress) => turn_round(ctx.skb.skb, BPF_F_INGRESS.into()),
        (Decision::Reject, Hook::Ingress) => turn_round(ctx.skb.skb, 0),
        (Decision::Redirect, _) => redirect(ctx.skb.skb),
        (Decision::Follow, _) => follow(ctx.skb.skb),
        (Decision::Reply, _) => turned::back(ctx.skb.skb),
        (Decision::Capture, _) => capture(ctx.skb.skb),
    }
}

/// Sends a packet out of the capture interface. Where there is no such interface it is dropped. Beside a socket load balancer a
/// copy goes there: it has no socket, by which the ingress hook at the other end of a veth pair would judge it again.
#[inline(always)]
fn capture(context: *mut __sk_buff) -> i32 {
    if maps::view().is_none_or(|view| view.socket_lb == 0) {
        // SAFETY: takes numbers only.
        return unsafe { bpf_redirect(maps::capture(), 0) as i32 };
    }
    // SAFETY: takes the program's own context and numbers.
    unsafe { bpf_clone_redirect(context, maps::capture(), 0) };
    TC_ACT_SHOT
}

/// Opens a redirected flow. One that may not be redirected is rejected.
#[inline(always)]
fn redirect(context: *mut __sk_buff) -> i32 {
    if redirect::admit() != 0 && names_its_sender(context) != 0 {
        return follow(context);
    }
    if is_refusable(context) != 0 { turn_round(context, BPF_F_INGRESS.into()) } else { TC_ACT_SHOT }
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

/// Counts a packet that may not be redirected, and returns whether it is rejected instead; 0 if not.
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

/// Makes the packet its own answer, and sends it. A global function: it has a stack of its own, and the verifier checks it
/// once for all callers. Linux 5.6.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn turn_round(context: *mut __sk_buff, flags: u64) -> i32 {
    let skb = Skb::judged(context);
    if rewrite(&skb).is_none() {
        maps::count(Reason::Nothing, Outcome::AnswerFailed, 0);
        return TC_ACT_SHOT;
    }
    skb.make_answer();
    // SAFETY: takes numbers only.
    let action = unsafe { bpf_redirect(skb.ifindex(), flags) };
    action as i32
}

#[inline(always)]
fn rewrite(skb: &Skb) -> Option<()> {
    let packet = skb.packet()?;
    let mut turned = Turned::new(skb)?;
    answer(&mut turned, packet)?;
    turned.swap_ends()
}
