//! The ingress hook, before DNAT: judges packets of sockets that a load balancer has connected.

use crate::found::Found;
use crate::frame::Origin as _;
use crate::lookup::Lookup;
use crate::reject::{Hook, limit};
use crate::skb::Skb;
use crate::socket::{self, Shown};
use crate::work::Work;
use crate::{maps, telemetry};
use aya_ebpf::bindings::__sk_buff;
use core::cell::Cell;
use epguard_common::{Decision, Mode, Outcome, Reason, Verdict, decide, judge_packet};

/// Judges a packet by its socket. `None`: its Service has no denial for it, or the socket does not
/// show the Service.
#[inline(always)]
pub fn judge_by_socket(context: *mut __sk_buff, work: &Work) -> Option<Decision> {
    let view = maps::view()?;
    if view.socket_lb == 0 || view.suspects == 0 || shows_service(context) == 0 {
        return None;
    }
    let decision = judge_shown(context, work);
    if decision == Some(Decision::Pass) {
        record_passed(work);
    }
    decision
}

/// What its Service lets pass is not judged as aimed at an orphan IP where it leaves. Not inlined,
/// as the next one.
#[inline(never)]
fn record_passed(work: &Work) {
    if maps::view().is_some_and(|view| view.terminated != 0) {
        maps::record_passed(work.packet.get());
    }
}

/// Whether the packet goes to a suspect, and its socket shows the Service; 0 if not. Global, as
/// `read_entry`.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn shows_service(context: *mut __sk_buff) -> u32 {
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    if maps::suspect(&work.packet.get().dst).is_none() {
        return 0;
    }
    match socket::read(context, work) {
        Shown::Service => 1,
        Shown::NoSocket => 0,
        Shown::Nothing => {
            let length = Skb::new(context, work).length();
            maps::count(Reason::Nothing, Outcome::UnknownSocket, length);
            0
        }
    }
}

/// Judges a packet whose socket shows the Service. Not inlined: its stack is free again for the
/// hook's own verdict.
#[inline(never)]
fn judge_shown(context: *mut __sk_buff, work: &Work) -> Option<Decision> {
    let skb = Skb::new(context, work);
    let packet = work.packet.get();
    let view = maps::view()?;
    let (config, mode) = maps::config()?;
    if mode == Mode::Off {
        return None;
    }
    work.set_key(Found::Socket);
    let lookup = Lookup {
        frame: &skb,
        view: &view,
        config,
        mode,
        hook: Hook::Ingress,
        suspect: maps::suspect(&packet.dst),
        found: Found::Socket,
        key: work.key.get(),
        meant: work.meant.get(),
        denial: Cell::new(None),
    };
    let verdict = judge_packet(packet, &lookup);
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
