//! Packets to a pod's IP itself: judges them by TERMINATED. A packet from such an IP lifts its denial.

use crate::frame::{Frame, Origin as _};
use crate::reject::limit;
use crate::route::{Hop, route, source_interface};
use crate::skb::Skb;
use crate::xdp::Raw;
use crate::{gate, maps, telemetry};
use aya_ebpf::EbpfContext as _;
use core::cell::Cell;
use core::ptr::copy_nonoverlapping;
use epguard_common::{
    Action, ActionModel, Addr, Decision, DenialKey, Mode, NextHop, Packet, Rate, RawConfig, Reason, Role,
    Sighting, Terminated, TerminatedModel, Uid, View, decide, is_vlan_tag, judge_terminated, refuses,
};

/// Judges a frame before its skb is made. The program at the same interface's TC hook counts and reports what passes here.
#[inline(always)]
pub fn judge_early(frame: &Raw) -> Decision {
    let Some(view) = maps::view().filter(|view| view.terminated != 0) else {
        return Decision::Pass;
    };
    if !gate::asks_at_xdp(frame.as_ptr().cast(), &view) {
        return Decision::Pass;
    }
    let packet = frame.parse();
    lift(frame, packet);
    packet.map_or(Decision::Pass, |packet| judge(frame, packet, &view))
}

/// Judges a packet to an IP that may be unused.
#[inline(always)]
pub fn judge<F: Frame>(frame: &F, packet: &Packet, view: &View) -> Decision {
    let Some((config, mode)) = maps::config() else {
        return Decision::Pass;
    };
    let tables =
        Tables { frame, config, mode, view, key: DenialKey::of_ip(packet.dst), terminated: Cell::new(None) };
    let verdict = judge_terminated(packet, &tables);
    let mut decision = decide(packet, verdict, &tables);
    if !F::IS_LAST {
        decision = decision.before_tc(|| frame.can_reject(packet));
        if decision == Decision::Pass {
            return Decision::Pass;
        }
    }
    if decision == Decision::Reject {
        limit::take(config, &tables, frame.now_ns());
    }
    telemetry::report(frame, packet, verdict, decision, &tables, maps::is_logged(config));
    decision
}

/// Lifts the denial of an address that sends a packet, at once. The agent learns of it from an event.
#[inline(always)]
pub fn lift<F: Frame>(frame: &F, packet: Option<&Packet>) {
    let Some(address) = frame.claimed(packet) else {
        return;
    };
    let Some(terminated) = maps::terminated(&address) else {
        return;
    };
    // Another program may have overwritten the mark of an answer.
    if terminated.lifted || packet.is_some_and(|packet| refuses(frame, packet)) {
        return;
    }
    let now_ns = frame.now_ns();
    // SAFETY: a field of an entry that stays writable for the run of the program; CPUs that race write nearly the same.
    unsafe { (&raw mut (*terminated.entry).lifted_ns).write_volatile(now_ns) };
    telemetry::lifted(frame, &address, terminated.entry, now_ns);
}

/// Notes a packet that shows a holder of an IP in TERMINATED, see [`Terminated::holder_ns`]: it is untagged, and enters at
/// the pod interface that the node routes its source to. Any other packet from the IP may be forged.
#[inline(always)]
pub fn sight(skb: &Skb, packet: &Packet) {
    let Some(terminated) = maps::terminated(&packet.src).filter(|_| !refuses(skb, packet)) else {
        return;
    };
    let now_ns = skb.now_ns();
    let entry = terminated.entry;
    // SAFETY: fields of an entry that stays there for the run of the program.
    let (holder_ns, confirmed_ns) = unsafe {
        ((&raw const (*entry).holder_ns).read_volatile(), (&raw const (*entry).confirmed_ns).read_volatile())
    };
    let Some(sighting) = Terminated::sighting(holder_ns, confirmed_ns, now_ns) else {
        return;
    };
    let untagged = !skb.is_tagged() && !is_vlan_tag(skb.ether_type());
    if !untagged
        || maps::role(skb.ifindex()) != Some(Role::Pod)
        || source_interface(skb.as_ptr().cast()) != skb.ifindex()
    {
        return;
    }
    // SAFETY: as above, aligned; CPUs that race write nearly the same.
    unsafe {
        match sighting {
            Sighting::First => (&raw mut (*entry).holder_ns).write_volatile(now_ns),
            Sighting::Confirming => (&raw mut (*entry).confirmed_ns).write_volatile(now_ns),
        }
    }
}

/// What the decision looks up, in the maps and the node's routes.
struct Tables<'a, F> {
    frame: &'a F,
    config: *const RawConfig,
    mode: Mode,
    view: &'a View,
    key: DenialKey,
    terminated: Cell<Option<maps::OrphanIp>>,
}

impl<F: Frame> TerminatedModel for Tables<'_, F> {
    #[inline(always)]
    fn lifted(&self, addr: &Addr) -> Option<bool> {
        let terminated = maps::terminated(addr)?;
        self.terminated.set(Some(terminated));
        Some(terminated.lifted)
    }

    #[inline(always)]
    fn is_ours(&self) -> bool {
        self.frame.is_ours()
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
    fn next_hop(&self, packet: &Packet) -> NextHop {
        match route(self.frame, packet) {
            Some(Hop::Blackhole) => NextHop::Away,
            Some(Hop::Through(ifindex)) => match maps::role(ifindex) {
                Some(Role::Uplink | Role::Stacked | Role::Tunnel) => NextHop::Away,
                Some(Role::Bridge) => NextHop::Bridge,
                _ => NextHop::Held,
            },
            None => NextHop::Held,
        }
    }
}

impl<F> telemetry::Evidence for Tables<'_, F> {
    #[inline(always)]
    fn rate(&self) -> Option<*mut Rate> {
        // SAFETY: a field of an entry that stays there for the run of the program.
        self.terminated.get().map(|found| unsafe { &raw mut (*found.entry).rate })
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
    fn client<'a>(&'a self, packet: &'a Packet) -> (&'a Addr, u16) {
        (&packet.src, packet.src_port)
    }
}

/// A packet that is aimed at no Service is never redirected.
impl<F: Frame> ActionModel for Tables<'_, F> {
    type Frame = F;
    type Backend = ();

    #[inline(always)]
    fn frame(&self) -> &F {
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
    fn backend(&self, _: &Packet) -> Option<()> {
        None
    }

    #[inline(always)]
    fn is_live(&self, (): &()) -> bool {
        false
    }

    #[inline(always)]
    fn has_route(&self, _: &Packet, (): &()) -> bool {
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

    /// An answer leaves where the packet enters.
    #[inline(always)]
    fn has_way(&self) -> bool {
        true
    }
}
