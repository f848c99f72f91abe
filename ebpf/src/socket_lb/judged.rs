//! A call behind the load balancer, judged: its Service and the endpoint that was chosen.

use super::{Ends, Kind, cookie};
use crate::clock::Clock;
use crate::frame::Origin;
use crate::lookup::Lookup;
use crate::redirect::is_live;
use crate::redirected::destination;
use crate::{maps, telemetry};
use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::bpf_get_netns_cookie;
use aya_ebpf::programs::SockAddrContext;
use core::ffi::c_void;
use epguard_common::{
    Action, CallDecision, CallModel, Intent, Mode, Outcome, Packet, Reason, Slot, Verdict, View, Vip,
    decide_call, judge, packet_from, packet_of,
};

/// Not inlined: its stack is free again before the socket is written.
#[inline(never)]
pub fn judge_call(ctx: &SockAddrContext, ends: &Ends, kind: Kind) -> CallDecision {
    let Some(view) = maps::view().filter(|view| view.suspects != 0) else {
        return CallDecision::Pass;
    };
    let slot = maps::service(&ends.vip);
    if !slot.is_some() {
        return CallDecision::Pass;
    }
    let Some((config, mode, debug)) = maps::config() else {
        return CallDecision::Pass;
    };
    if mode == Mode::Off {
        return CallDecision::Pass;
    }
    let (packet, clock) = (packet_of(&ends.endpoint), Clock::default());
    let call = Judged {
        ctx,
        view: &view,
        lookup: Lookup::new(&view, config, mode, Intent::carried(slot), &clock),
        slot,
        kind,
    };
    let verdict = judge(&packet, &call.lookup);
    // The packets of a call that passes are counted themselves.
    if let Verdict::Clear | Verdict::Pass(Reason::Nothing, _) = verdict {
        return CallDecision::Pass;
    }
    let decision = decide_call(&packet, verdict, &call);
    if decision == CallDecision::RefuseUnseen {
        maps::count(Reason::Nothing, Outcome::RefusedUnseen, 0);
    }
    if let Some(as_of_packet) = decision.as_of_packet() {
        telemetry::report(&call, &packet, verdict, as_of_packet, &call.lookup, debug);
    }
    decision
}

/// A call that is judged, with what the choice looks up.
struct Judged<'a> {
    ctx: &'a SockAddrContext,
    view: &'a View,
    lookup: Lookup<'a>,
    slot: Slot,
    kind: Kind,
}

impl EbpfContext for Judged<'_> {
    #[inline(always)]
    fn as_ptr(&self) -> *mut c_void {
        self.ctx.as_ptr()
    }
}

/// A call has no packet yet.
impl Origin for Judged<'_> {
    #[inline(always)]
    fn length(&self) -> u32 {
        0
    }

    #[inline(always)]
    fn now_ns(&self) -> u64 {
        self.lookup.now_ns()
    }

    #[inline(always)]
    fn ifindex(&self) -> u32 {
        0
    }
}

impl CallModel for Judged<'_> {
    #[inline(always)]
    fn own_action(&self) -> Action {
        self.lookup.own_action()
    }

    #[inline(always)]
    fn configured_action(&self, reason: Reason) -> Action {
        self.lookup.configured_action(reason)
    }

    /// A socket that is not connected has no connection that its packets belong to.
    #[inline(always)]
    fn packets_are_judged(&self) -> bool {
        self.kind == Kind::Connect && self.view.socket_lb == View::HOOKED
    }

    #[inline(always)]
    fn has_backend(&self, packet: &Packet) -> bool {
        let Some(destination) = destination() else {
            return false;
        };
        let endpoint = Vip::of(packet);
        // SAFETY: takes the program's own context.
        let netns = unsafe { bpf_get_netns_cookie(self.ctx.as_ptr()) };
        let packet = packet_from(&endpoint, netns, cookie(self.ctx));
        maps::choose(&packet, self.slot, &mut destination.backend)
            && destination.backend.addr.is_v4() == endpoint.addr.is_v4()
            && is_live(&destination.backend)
    }
}
