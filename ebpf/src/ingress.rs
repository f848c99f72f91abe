//! The ingress hook, before DNAT: judges packets of sockets that a load balancer has connected.

use crate::found::Found;
use crate::frame::Origin as _;
use crate::lookup::Lookup;
use crate::reject::{Hook, limit};
use crate::skb::Skb;
use crate::socket::{self, Shown};
use crate::{maps, telemetry};
use aya_ebpf::bindings::__sk_buff;
use core::cell::Cell;
use epguard_common::{Decision, Mode, Outcome, Reason, Verdict, decide, judge};

/// Judges a packet by its socket. `parsed`: see [`Skb::new`]. `None`: its Service has no denial for
/// it, or the socket does not show the Service.
#[inline(always)]
pub fn judge_by_socket(context: *mut __sk_buff, parsed: u32) -> Option<Decision> {
    maps::view().filter(|view| view.socket_lb != 0 && view.suspects != 0)?;
    if parsed == 0 || meant(context) == 0 {
        return None;
    }
    let decision = judge_meant(context);
    if decision == Some(Decision::Pass) {
        note_passed(context);
    }
    decision
}

/// What its Service lets pass is not judged as aimed at an orphan IP where it leaves. Not inlined,
/// as the next one.
#[inline(never)]
fn note_passed(context: *mut __sk_buff) {
    if let Some(packet) = Skb::judged(context).packet()
        && maps::view().is_some_and(|view| view.terminated != 0)
    {
        maps::note_passed(packet);
    }
}

/// Whether the packet goes to a suspect, and its socket shows the Service; 0 if not. Global, as
/// `read_entry`.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn meant(context: *mut __sk_buff) -> u32 {
    let skb = Skb::judged(context);
    let Some(packet) = skb.packet() else { return 0 };
    if maps::suspect(&packet.dst).is_none() {
        return 0;
    }
    match socket::read(context) {
        Shown::Service => 1,
        Shown::NoSocket => 0,
        Shown::Nothing => {
            maps::count(Reason::Nothing, Outcome::UnknownSocket, skb.length());
            0
        }
    }
}

/// Not inlined: its stack is free again for the hook's own verdict.
#[inline(never)]
fn judge_meant(context: *mut __sk_buff) -> Option<Decision> {
    let skb = Skb::judged(context);
    let (view, packet) = (maps::view()?, skb.packet()?);
    let (config, mode) = maps::config()?;
    let (key, meant) = maps::aim(Found::Socket)?;
    if mode == Mode::Off {
        return None;
    }
    let lookup = Lookup {
        frame: &skb,
        view: &view,
        config,
        mode,
        hook: Hook::Ingress,
        suspect: maps::suspect(&packet.dst),
        found: Found::Socket,
        key,
        meant,
        denial: Cell::new(None),
    };
    let verdict = judge(packet, &lookup);
    // The hook's own verdict counts the others.
    if let Verdict::Clear | Verdict::Pass(Reason::Nothing, _) = verdict {
        return None;
    }
    let decision = decide(packet, verdict, &lookup);
    if decision == Decision::Reject {
        limit::take(config, &lookup, skb.now_ns());
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
