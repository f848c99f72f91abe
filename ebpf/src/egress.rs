//! The egress hook, after DNAT: judges packets that leave towards a pod, by the Service that they were aimed at.

use crate::frame::Origin as _;
use crate::lookup::Lookup;
use crate::records::find;
use crate::reject::{Hook, limit};
use crate::skb::Skb;
use crate::{maps, telemetry, terminated};
use aya_ebpf::bindings::__sk_buff;
use core::cell::Cell;
use epguard_common::{
    Decision, Mode, Outcome, Packet, Reason, Role, Verdict, View, decide_egress, refuses, without_denial,
};

/// Carries out what `epguard_common` decides about a packet that leaves: takes answers from the limits, counts and reports. The
/// decision never depends on the report. `parsed`: see [`Skb::new`]. `TEST`: see [`find`].
///
/// Not inlined: its stack is free again while the decision is carried out.
#[inline(never)]
pub fn judge<const TEST: bool>(context: *mut __sk_buff, parsed: u32) -> Decision {
    let skb = Skb::new(context, parsed);
    // One by one: of a pair the verifier sees the values of one that is missing, up to Linux 6.12.
    let Some(view) = maps::active() else {
        return Decision::Pass;
    };
    let Some((config, mode)) = maps::config() else {
        return Decision::Pass;
    };
    // ARP and non-IP packets, too: the sender of an ARP packet holds its address.
    if view.terminated != 0 && !skb.is_answer() {
        lift(context, parsed);
    }
    let Some(packet) = skb.packet() else {
        return Decision::Pass;
    };
    // A pod that forges the mark sends nothing but refusals unjudged.
    if skb.is_answer() && refuses(&skb, packet) {
        return Decision::Pass;
    }
    let suspect = maps::suspect(&packet.dst);
    if suspect.is_none() && view.flows == 0 || mode == Mode::Off || !is_judged_here(&skb, &view) {
        return Decision::Pass;
    }
    if view.flows == 0 && suspect.is_some_and(|(_, flags)| pass_without_denial(context, flags)) {
        return Decision::Pass;
    }
    let found = find::<TEST>(context);
    let Some((key, meant)) = maps::aim(found) else {
        return Decision::Pass;
    };
    let lookup = Lookup {
        frame: &skb,
        view: &view,
        config,
        mode,
        hook: Hook::Egress,
        suspect,
        found,
        key,
        meant,
        denial: Cell::new(None),
    };
    let (verdict, decision) = decide_egress(packet, &lookup);
    match decision {
        Decision::Follow => maps::count(Reason::Nothing, Outcome::Redirected, skb.length()),
        Decision::Reject => limit::take(config, &lookup, skb.now_ns()),
        _ => {}
    }
    telemetry::report(&skb, packet, verdict, decision, &lookup, maps::is_logged(config));
    decision
}

/// Counts the packet in the scratch map if no Service has a denial of its destination: it passes without a look at its records. False
/// if one has. Not inlined: its stack is free again for the verdict.
#[inline(never)]
fn pass_without_denial(context: *mut __sk_buff, flags: u32) -> bool {
    let skb = Skb::judged(context);
    let Some((reason, outcome)) = without_denial(flags).and_then(Verdict::counted) else {
        return false;
    };
    let opens = skb.packet().is_some_and(Packet::opens);
    maps::count_packet::<false>(reason, outcome, skb.length(), opens);
    true
}

/// Lifts the denial of the packet's sender. Not inlined: its stack is free again for the verdict.
#[inline(never)]
fn lift(context: *mut __sk_buff, parsed: u32) {
    let skb = Skb::new(context, parsed);
    terminated::lift(&skb, skb.packet());
}

/// Whether this interface judges what leaves by it. Where another hooked interface follows, that one does; the capture interface
/// gets packets that were judged.
#[inline(always)]
fn is_judged_here(skb: &Skb, view: &View) -> bool {
    let ifindex = skb.ifindex();
    let hands_on = view.relays != 0 && maps::role(ifindex).is_some_and(Role::hands_on);
    !hands_on && maps::capture() != ifindex
}
