//! Packets that leave the node for a pod's IP itself: judges them by TERMINATED. A packet from such
//! an IP lifts its denial.

use crate::frame::Frame;
use crate::reject::limit;
use crate::{maps, telemetry};
use core::cell::Cell;
use core::ptr::copy_nonoverlapping;
use epguard_common::{
    Action, ActionModel, Addr, Decision, DenialKey, Mode, Packet, Rate, RawConfig, Reason,
    TerminatedModel, Uid, View, decide, judge_terminated, refuses,
};

/// Judges a packet to an IP that may be unused.
#[inline(always)]
pub fn judge_by_ip<F: Frame>(frame: &F, view: &View) -> Decision {
    let packet = frame.work().packet.get();
    let Some((config, mode)) = maps::config() else {
        return Decision::Pass;
    };
    let lookup = OrphanLookup {
        frame,
        config,
        mode,
        view,
        key: DenialKey::of_ip(packet.dst),
        terminated: Cell::new(None),
    };
    let verdict = judge_terminated(packet, &lookup);
    let mut decision = decide(packet, verdict, &lookup);
    if !F::IS_LAST {
        decision = decision.before_tc(|| frame.can_reject(packet));
        if decision == Decision::Pass {
            return Decision::Pass;
        }
    }
    if decision == Decision::Reject {
        limit::take(config, &lookup, frame.now_ns());
    }
    telemetry::report(
        frame,
        packet,
        verdict,
        decision,
        &lookup,
        maps::is_logged(config),
    );
    decision
}

/// Lifts the denial of an address that sends a packet, at once. The agent learns of it from an
/// event.
#[inline(always)]
pub fn lift_sender<F: Frame>(frame: &F) {
    let packet = frame.work().packet.get();
    let Some(terminated) = maps::terminated(&packet.src) else {
        return;
    };
    // Another program may have overwritten the mark of an answer.
    if terminated.lifted || refuses(frame, packet) {
        return;
    }
    let now_ns = frame.now_ns();
    // SAFETY: a field of an entry that stays writable for the run of the program; CPUs that race
    // write nearly the same.
    unsafe { (&raw mut (*terminated.entry).lifted_ns).write_volatile(now_ns) };
    telemetry::lifted(frame, &packet.src, terminated.entry, now_ns);
}

/// What the decision looks up, in the maps and the node's routes.
struct OrphanLookup<'a, F> {
    frame: &'a F,
    config: *const RawConfig,
    mode: Mode,
    view: &'a View,
    key: DenialKey,
    terminated: Cell<Option<maps::OrphanIp>>,
}

impl<F: Frame> TerminatedModel for OrphanLookup<'_, F> {
    #[inline(always)]
    fn lifted(&self, addr: &Addr) -> Option<bool> {
        let terminated = maps::terminated(addr)?;
        self.terminated.set(Some(terminated));
        Some(terminated.lifted)
    }

    #[inline(always)]
    fn mode(&self) -> Mode {
        self.mode
    }

    #[inline(always)]
    fn mode_of_reason(&self) -> Mode {
        maps::mode_of(self.config, Reason::Terminated)
    }

    #[inline(always)]
    fn bound(&self) -> Mode {
        let mode = self.terminated.get().map(|found| found.mode);
        Mode::from_raw(mode.unwrap_or_default())
    }

    #[inline(always)]
    fn lease_is_valid(&self) -> bool {
        self.view.lease_is_valid(self.frame.now_ns())
    }

    #[inline(always)]
    fn leaves(&self, packet: &Packet) -> bool {
        self.frame.leaves(packet)
    }

    #[inline(always)]
    fn is_routed(&self) -> bool {
        self.frame.is_routed()
    }

    #[inline(always)]
    fn follows_range(&self) -> bool {
        self.frame.follows_range()
    }
}

impl<F: Frame> telemetry::Evidence for OrphanLookup<'_, F> {
    #[inline(always)]
    fn rate(&self) -> Option<*mut Rate> {
        // SAFETY: a field of an entry that stays there for the run of the program.
        self.terminated
            .get()
            .map(|found| unsafe { &raw mut (*found.entry).rate })
    }

    #[inline(always)]
    fn write_uids(&self, dead: *mut Uid, _: *mut Uid) {
        if let Some(found) = self.terminated.get() {
            // SAFETY: as in `rate`; UIDs are plain octets, and the caller has room for one.
            unsafe { copy_nonoverlapping(&raw const (*found.entry).dead_uid, dead, 1) };
        }
    }

    #[inline(always)]
    fn key(&self) -> &DenialKey {
        &self.key
    }

    #[inline(always)]
    fn client(&self) -> (&Addr, u16) {
        let meant = self.frame.work().meant.get();
        (&meant.client, meant.client_port)
    }
}

/// A packet that is aimed at no Service is never redirected.
impl<F: Frame> ActionModel for OrphanLookup<'_, F> {
    type Octets = F;

    #[inline(always)]
    fn octets(&self) -> &F {
        self.frame
    }

    #[inline(always)]
    fn own_action(&self) -> Action {
        let action = self.terminated.get().map(|found| found.action);
        Action::from_raw(action.unwrap_or_default())
    }

    #[inline(always)]
    fn configured_action(&self, reason: Reason) -> Action {
        maps::action_of(self.config, reason)
    }

    #[inline(always)]
    fn choose_backend(&self, _: &Packet) -> bool {
        false
    }

    #[inline(always)]
    fn is_backend_live(&self) -> bool {
        false
    }

    #[inline(always)]
    fn has_route_to_backend(&self, _: &Packet) -> bool {
        false
    }

    #[inline(always)]
    fn is_to_many(&self) -> bool {
        self.frame.is_to_many()
    }

    #[inline(always)]
    fn has_room(&self) -> bool {
        limit::has_room(self.config, self, self.frame.now_ns())
    }

    #[inline(always)]
    fn has_way(&self) -> bool {
        self.frame.has_way()
    }
}
