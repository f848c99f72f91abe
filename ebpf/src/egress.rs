//! The egress hook, after DNAT: judges packets that leave towards a pod, by the Service that they were aimed at.

use crate::found::Found;
use crate::frame::Origin as _;
use crate::lookup::Lookup;
use crate::records::find;
use crate::reject::limit;
use crate::skb::Skb;
use crate::{maps, telemetry, terminated};
use aya_ebpf::bindings::__sk_buff;
use core::cell::Cell;
use epguard_common::{Decision, Mode, Outcome, Reason, Role, decide_egress};

/// Where the Service of a packet that leaves is recorded. `None`: it passes. `TEST`: see [`find`].
///
/// Not inlined: its stack, and that of the lookups below it, is free again for the verdict.
#[inline(never)]
pub fn look<const TEST: bool>(context: *mut __sk_buff) -> Option<Found> {
    let (skb, view) = (Skb::parse(context), maps::active()?);
    // Before the rest: the verifier of Linux 6.1 loses the value of an Option if much code comes between its test and its use.
    let Some(packet) = skb.packet() else {
        // ARP and non-IP packets. The sender of an ARP packet holds its address.
        if view.terminated != 0 {
            terminated::lift(&skb, None);
        }
        return None;
    };
    if view.terminated != 0 && !skb.is_answer() {
        terminated::lift(&skb, Some(packet));
    }
    if view.suspects == 0 && view.flows == 0 || !is_judged_here(&skb) {
        return None;
    }
    if maps::suspect(&packet.dst).is_none() && view.flows == 0 {
        return None;
    }
    let (_, mode, _) = maps::config()?;
    (mode != Mode::Off).then(|| find::<TEST>(context))
}

/// Carries out what `epguard_common` decides about a packet that leaves: takes answers from the limits, counts and reports. The
/// decision never depends on the report. Not inlined, as [`look`].
#[inline(never)]
pub fn judge(context: *mut __sk_buff, found: Found) -> Decision {
    let skb = Skb::judged(context);
    let (Some(view), Some(packet)) = (maps::active(), skb.packet()) else {
        return Decision::Pass;
    };
    let (Some((config, mode, debug)), Some((key, meant))) = (maps::config(), maps::aim()) else {
        return Decision::Pass;
    };
    let lookup = Lookup {
        frame: &skb,
        view: &view,
        config,
        mode,
        suspect: maps::suspect(&packet.dst),
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
    telemetry::report(&skb, packet, verdict, decision, &lookup, debug);
    decision
}

/// Whether this interface judges what leaves by it. Where another hooked interface follows, that one does; the capture interface
/// gets packets that were judged.
#[inline(always)]
fn is_judged_here(skb: &Skb) -> bool {
    let ifindex = skb.ifindex();
    !matches!(maps::role(ifindex), Some(Role::Stacked | Role::Relay)) && maps::capture() != ifindex
}
