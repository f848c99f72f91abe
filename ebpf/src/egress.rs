//! The egress hook, after DNAT: judges packets that leave towards a pod, by the Service that they
//! were aimed at, and those that leave the node for an orphan IP itself.

use crate::found::Found;
use crate::frame::{Frame as _, Origin as _};
use crate::lookup::Lookup;
use crate::records::find;
use crate::reject::{Hook, limit};
use crate::skb::Skb;
use crate::work::Work;
use crate::{maps, telemetry, terminated};
use aya_ebpf::bindings::__sk_buff;
use core::cell::Cell;
use epguard_common::{
    Decision, Mode, Outcome, Reason, Role, Verdict, View, decide_egress, refuses, without_denial,
};

/// Decides about a packet that leaves. `TEST`: see [`find`].
#[inline(always)]
pub fn judge_leaving<const TEST: bool>(context: *mut __sk_buff, work: &Work) -> Decision {
    match judge_by_service::<TEST>(context, work) {
        Some(decision) => decision,
        None if has_passed(context, work) => Decision::Pass,
        None => judge_by_ip(context, work),
    }
}

/// Whether the packet's Service has let it pass, at the ingress hook. Not inlined, as the next
/// ones.
#[inline(never)]
fn has_passed(context: *mut __sk_buff, work: &Work) -> bool {
    maps::view().is_some_and(|view| view.socket_lb != 0)
        && maps::has_passed(work.packet.get(), Skb::new(context, work).now_ns())
}

/// Decides about a packet to an orphan IP itself. Not inlined, as the next one: its stack is free
/// again for what follows.
#[inline(never)]
fn judge_by_ip(context: *mut __sk_buff, work: &Work) -> Decision {
    let Some(view) = maps::active() else {
        return Decision::Pass;
    };
    terminated::judge_by_ip(&Skb::new(context, work), &view)
}

/// Carries out what `epguard_common` decides about a packet by its Service: takes answers from the
/// limits, counts and reports. The decision never depends on the report. `None`: no translator sent
/// the packet to its IP, which is an orphan IP.
#[inline(never)]
fn judge_by_service<const TEST: bool>(context: *mut __sk_buff, work: &Work) -> Option<Decision> {
    let skb = Skb::new(context, work);
    let packet = work.packet.get();
    // One by one: of a pair the verifier sees the values of one that is missing, up to Linux 6.12.
    let Some(view) = maps::active() else {
        return PASS;
    };
    let Some((config, mode)) = maps::config() else {
        return PASS;
    };
    // A pod that forges the mark sends nothing but refusals unjudged.
    if skb.is_answer() && refuses(&skb, packet) {
        return PASS;
    }
    if view.terminated != 0 && !skb.is_answer() {
        lift(context, work);
    }
    if mode == Mode::Off || !is_judged_here(&skb, &view) {
        return PASS;
    }
    let suspect = maps::suspect(&packet.dst);
    if view.flows == 0
        && !leaves_for_orphan(context, work)
        && suspect.is_none_or(|(_, flags)| pass_without_denial(context, work, flags))
    {
        return PASS;
    }
    let found = find::<TEST>(context, work);
    let is_aimed_there = match found {
        Found::Direct => true,
        // A process of this node may answer what no hook has seen.
        Found::Nothing => packet.opens() || skb.came_in_at() != 0,
        _ => false,
    };
    if is_aimed_there && leaves_for_orphan(context, work) {
        return None;
    }
    work.set_key(found);
    let lookup = Lookup {
        frame: &skb,
        view: &view,
        config,
        mode,
        hook: Hook::Egress,
        suspect,
        found,
        key: work.key.get(),
        meant: work.meant.get(),
        denial: Cell::new(None),
    };
    let (verdict, decision) = decide_egress(packet, &lookup);
    match decision {
        Decision::Follow => maps::count(Reason::Nothing, Outcome::Redirected, skb.length()),
        Decision::Reject => limit::take(config, &lookup, skb.now_ns()),
        _ => {}
    }
    telemetry::report(
        &skb,
        packet,
        verdict,
        decision,
        &lookup,
        maps::is_logged(config),
    );
    Some(decision)
}

const PASS: Option<Decision> = Some(Decision::Pass);

/// Counts the packet if no Service has a denial of its destination: it passes without a look at its
/// records. False if one has. Not inlined: its stack is free again for the verdict.
#[inline(never)]
fn pass_without_denial(context: *mut __sk_buff, work: &Work, flags: u32) -> bool {
    let Some((reason, outcome)) = without_denial(flags).and_then(Verdict::counted) else {
        return false;
    };
    let length = Skb::new(context, work).length();
    maps::count_packet::<false>(reason, outcome, length, work.packet.get().opens());
    true
}

/// Lifts the denial of the packet's sender. Not inlined: its stack is free again for the verdict.
#[inline(never)]
fn lift(context: *mut __sk_buff, work: &Work) {
    terminated::lift_sender(&Skb::new(context, work));
}

/// Whether the packet leaves the node for an orphan IP. Not inlined, as [`lift`].
#[inline(never)]
fn leaves_for_orphan(context: *mut __sk_buff, work: &Work) -> bool {
    let packet = work.packet.get();
    maps::terminated(&packet.dst).is_some() && Skb::new(context, work).leaves(packet)
}

/// Whether this interface judges what leaves by it. Where another hooked interface follows, that
/// one does.
#[inline(always)]
fn is_judged_here(skb: &Skb, view: &View) -> bool {
    view.relays == 0 || !maps::role(skb.ifindex()).is_some_and(Role::hands_on)
}
