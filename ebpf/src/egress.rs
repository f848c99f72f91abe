//! The egress hook, after DNAT: judges packets that leave towards a pod, by the Service that they were aimed at.

use crate::frame::Origin as _;
use crate::lookup::Lookup;
use crate::records::find;
use crate::reject::limit;
use crate::skb::Skb;
use crate::{maps, telemetry, terminated};
use aya_ebpf::EbpfContext as _;
use core::cell::Cell;
use epguard_common::{Decision, Mode, Outcome, Reason, Role, View, decide_egress};

/// Carries out what `epguard_common` decides about a packet that leaves: takes answers from the limits, counts and reports. The
/// decision never depends on the report. `TEST`: see [`find`].
#[inline(always)]
pub fn judge<const TEST: bool>(skb: &Skb) -> Decision {
    let Some(view) = maps::active() else {
        return Decision::Pass;
    };
    // Before the rest: the verifier of Linux 6.1 loses the value of an Option if much code comes between its test and its use.
    let Some(packet) = skb.packet() else {
        return without_packet(skb, &view);
    };
    if view.terminated != 0 && !skb.is_answer() {
        terminated::lift(skb, Some(packet));
    }
    if view.suspects == 0 && view.flows == 0 || !is_judged_here(skb) {
        return Decision::Pass;
    }
    let suspect = maps::suspect(&packet.dst);
    if suspect.is_none() && view.flows == 0 {
        return Decision::Pass;
    }
    let Some((config, mode, debug)) = maps::config() else {
        return Decision::Pass;
    };
    if mode == Mode::Off {
        return Decision::Pass;
    }
    let found = find::<TEST>(skb.as_ptr().cast());
    let Some((key, meant)) = maps::aim() else {
        return Decision::Pass;
    };
    let lookup = Lookup {
        frame: skb,
        view: &view,
        config,
        mode,
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
    telemetry::report(skb, packet, verdict, decision, &lookup, debug);
    decision
}

/// Whether this interface judges what leaves by it. Where another hooked interface follows, that one does; the capture interface
/// gets packets that were judged.
#[inline(always)]
fn is_judged_here(skb: &Skb) -> bool {
    let ifindex = skb.ifindex();
    !matches!(maps::role(ifindex), Some(Role::Stacked | Role::Relay)) && maps::capture() != ifindex
}

/// ARP and non-IP packets. The sender of an ARP packet holds its address.
#[inline(always)]
fn without_packet(skb: &Skb, view: &View) -> Decision {
    if view.terminated != 0 {
        terminated::lift(skb, None);
    }
    Decision::Pass
}
