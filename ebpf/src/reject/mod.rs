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
use crate::work::Work;
use crate::{maps, redirect};
use aya_ebpf::bindings::{__sk_buff, BPF_F_INGRESS, TC_ACT_SHOT, TC_ACT_UNSPEC, bpf_redir_neigh};
use aya_ebpf::helpers::generated::{bpf_redirect, bpf_redirect_neigh};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use epguard_common::{Addr, Decision, Outcome, Reason, answer, can_answer};
use rewrite::RewrittenSkb;
use way::WayKind;

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
pub fn carry_out(context: *mut __sk_buff, decision: Decision, hook: Hook) -> i32 {
    match (decision, hook) {
        (Decision::Pass, _) => TC_ACT_UNSPEC,
        (Decision::Drop | Decision::DropUnanswered | Decision::DropUnanswerable, _) => TC_ACT_SHOT,
        (Decision::Reject, Hook::Egress) => send_answer(context),
        (Decision::Reject, Hook::Ingress) => send_back(context),
        (Decision::Redirect, _) => open_flow(context),
        (Decision::Follow, _) => redirect::follow(context),
        (Decision::Reply, _) => redirect::send_reply(context),
    }
}

/// Opens a redirected flow. One that may not be redirected is rejected.
#[inline(always)]
fn open_flow(context: *mut __sk_buff) -> i32 {
    if redirect::admit() != 0 && names_its_sender(context) != 0 {
        return redirect::follow(context);
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

/// Counts a packet that may not be redirected, and returns whether it is rejected instead; 0 if
/// not.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn is_refusable(context: *mut __sk_buff) -> u32 {
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    let skb = Skb::new(context, work);
    maps::count(Reason::Nothing, Outcome::RedirectRefused, skb.length());
    let Some((config, _)) = maps::config() else {
        return 0;
    };
    let is_answered =
        can_answer(&skb, work.packet.get(), skb.is_to_many()) && limit::take_of_node(config);
    u32::from(is_answered)
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
    let Some(work) = Work::of_this_processor() else {
        return TC_ACT_SHOT;
    };
    let Some(action) = send(&Skb::new(context, work)) else {
        maps::count(Reason::Nothing, Outcome::AnswerFailed, 0);
        return TC_ACT_SHOT;
    };
    action
}

#[inline(always)]
fn send(skb: &Skb) -> Option<i32> {
    let way = skb.work.way.get();
    if way.has_own_terms != 0 {
        skb.work.mean_destination();
    }
    let enters = way.kind == WayKind::In as u32;
    let enters_elsewhere = enters && way.ifindex != skb.ifindex();
    let leaves_elsewhere = way.kind == WayKind::Routed as u32 || way.kind == WayKind::OnLink as u32;
    if skb.is_tagged() && (enters_elsewhere || leaves_elsewhere) {
        skb.remove_tag()?;
    }
    let mut rewritten = RewrittenSkb::new(skb)?;
    answer(&mut rewritten, skb.work.packet.get(), skb.work.meant.get())?;
    if enters {
        rewritten.set_ends(way.station)?;
    } else if leaves_elsewhere {
        rewritten.make_header()?;
    } else {
        rewritten.swap_ends()?;
    }
    skb.make_answer();
    let ifindex = way.ifindex;
    // SAFETY: take numbers, and a parameter on the stack.
    let action = unsafe {
        if enters {
            bpf_redirect(ifindex, BPF_F_INGRESS.into())
        } else if way.kind == WayKind::Routed as u32 {
            bpf_redirect_neigh(ifindex, null_mut(), 0, 0)
        } else if way.kind == WayKind::OnLink as u32 {
            let mut hop = client_as_hop(&skb.work.meant.get().client);
            bpf_redirect_neigh(ifindex, &raw mut hop, HOP_SIZE, 0)
        } else {
            bpf_redirect(ifindex, 0)
        }
    };
    Some(action as i32)
}

/// The client as the next hop.
#[inline(always)]
fn client_as_hop(client: &Addr) -> bpf_redir_neigh {
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
