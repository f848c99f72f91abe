//! A call behind the load balancer, judged: its Service and the endpoint that was chosen.

use super::{Ends, Kind, cookie};
use crate::clock::Clock;
use crate::found::Found;
use crate::frame::Origin;
use crate::lookup::Lookup;
use crate::redirect::is_live;
use crate::reject::Hook;
use crate::{maps, telemetry};
use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::bpf_get_netns_cookie;
use aya_ebpf::programs::SockAddrContext;
use core::cell::{Cell, RefCell};
use core::ffi::c_void;
use epguard_common::{
    Action, Backend, CallDecision, CallModel, DenialKey, Meant, Mode, Outcome, Packet, Reason,
    Verdict, View, Vip, decide_call, judge_packet, packet_from, packet_of,
};

/// Judges a call. `backend` becomes the live endpoint of a call that is redirected. Not inlined:
/// its stack is free again before the socket is written.
#[inline(never)]
pub fn judge_call(
    ctx: &SockAddrContext,
    ends: &Ends,
    kind: Kind,
    backend: &mut Backend,
) -> CallDecision {
    let Some(view) = maps::view().filter(|view| view.suspects != 0) else {
        return CallDecision::Pass;
    };
    let service = maps::service(&ends.vip);
    if !service.is_some() {
        return CallDecision::Pass;
    }
    let Some((config, mode)) = maps::config() else {
        return CallDecision::Pass;
    };
    if mode == Mode::Off {
        return CallDecision::Pass;
    }
    let Vip {
        addr,
        port,
        protocol,
        ..
    } = ends.endpoint;
    let key = DenialKey::new(addr, service, port, protocol);
    let packet = packet_of(&ends.endpoint);
    let meant = Meant::default();
    let origin = Call {
        ctx,
        clock: Clock::new(),
    };
    let call = Judged {
        lookup: Lookup {
            frame: &origin,
            view: &view,
            config,
            mode,
            hook: Hook::Egress,
            suspect: maps::suspect(&addr),
            found: Found::Socket,
            key: &key,
            meant: &meant,
            denial: Cell::new(None),
        },
        kind,
        backend: RefCell::new(backend),
    };
    let verdict = judge_packet(&packet, &call.lookup);
    // The packets of a call that passes are counted themselves.
    if let Verdict::Clear | Verdict::Pass(Reason::Nothing, _) = verdict {
        return CallDecision::Pass;
    }
    let decision = decide_call(&packet, verdict, &call);
    if decision == CallDecision::RefuseUnseen {
        maps::count_call(Reason::Nothing, Outcome::RefusedUnseen);
    }
    if let Some(as_of_packet) = decision.as_of_packet() {
        telemetry::report(
            &origin,
            &packet,
            verdict,
            as_of_packet,
            &call.lookup,
            maps::is_logged(config),
        );
    }
    decision
}

/// A call: it has no packet yet.
struct Call<'a> {
    ctx: &'a SockAddrContext,
    clock: Clock,
}

impl EbpfContext for Call<'_> {
    #[inline(always)]
    fn as_ptr(&self) -> *mut c_void {
        self.ctx.as_ptr()
    }
}

impl Origin for Call<'_> {
    const MAY_BE_INTERRUPTED: bool = true;

    #[inline(always)]
    fn length(&self) -> u32 {
        0
    }

    #[inline(always)]
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    #[inline(always)]
    fn ifindex(&self) -> u32 {
        0
    }
}

/// A call that is judged, with what the choice looks up.
struct Judged<'a> {
    lookup: Lookup<'a, Call<'a>>,
    kind: Kind,
    backend: RefCell<&'a mut Backend>,
}

impl CallModel for Judged<'_> {
    #[inline(always)]
    fn own_action(&self) -> Action {
        self.lookup.own_action()
    }

    #[inline(always)]
    fn configured_action(&self, reason: Reason) -> Action {
        maps::action_of(self.lookup.config, reason)
    }

    /// A socket that is not connected has no connection that its packets belong to.
    #[inline(always)]
    fn packets_are_judged(&self) -> bool {
        self.kind == Kind::Connect && self.lookup.view.socket_lb == View::HOOKED
    }

    #[inline(always)]
    fn has_backend(&self, _: &Packet) -> bool {
        let Lookup { key, frame, .. } = self.lookup;
        let endpoint = Vip {
            addr: key.addr,
            port: key.port,
            protocol: key.protocol,
            reserved: 0,
        };
        // SAFETY: takes the program's own context.
        let netns = unsafe { bpf_get_netns_cookie(frame.as_ptr()) };
        let packet = packet_from(&endpoint, netns, cookie(frame.ctx));
        let Ok(mut backend) = self.backend.try_borrow_mut() else {
            return false;
        };
        maps::choose_backend(&packet, key, &mut backend)
            && backend.addr.is_v4() == endpoint.addr.is_v4()
            && is_live(&backend)
    }
}
