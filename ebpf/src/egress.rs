//! The egress hook, after DNAT: judges packets that leave towards a pod, by the Service that they were aimed at.

use crate::frame::{Frame as _, Origin as _};
use crate::redirected::destination;
use crate::reject::limit;
use crate::skb::Skb;
use crate::telemetry::{self, Evidence};
use crate::{aimed, clock, maps, redirect, terminated};
use aya_ebpf::EbpfContext as _;
use core::cell::Cell;
use epguard_common::{
    Action, ActionModel, Addr, Decision, DenialKey, EgressModel, Intent, JUDGED, Mode, Model, Outcome,
    Packet, Proof, Rate, RawConfig, Reason, Slot, Suspect, Uid, View, decide_egress,
};

const UDP: u8 = 17;

/// Carries out what `epguard_common` decides about a packet that leaves: writes numbers to the packet, takes answers from the
/// limits, counts and reports. The decision never depends on the report.
#[inline(always)]
pub fn judge(skb: &Skb) -> Decision {
    let Some(view) = maps::active() else {
        return Decision::Pass;
    };
    let carried = skb.carried(&view);
    skb.hand_on(&view, carried);
    if view.is_answer(carried) {
        return Decision::Pass;
    }
    // Before the rest: the verifier of Linux 6.1 loses the value of an Option if much code comes between its test and its use.
    let Some(packet) = skb.packet() else {
        return without_packet(skb, &view);
    };
    if view.terminated != 0 {
        terminated::lift(skb, Some(packet));
    }
    if view.suspects == 0 && view.flows == 0 {
        return Decision::Pass;
    }
    let (slot, judged) = (Slot::from_carried(carried), carried == JUDGED);
    let Some((config, mode, debug)) = maps::config() else {
        return Decision::Pass;
    };
    if mode == Mode::Off {
        return Decision::Pass;
    }
    let tables = Tables {
        skb,
        view: &view,
        carried: if slot.is_some() || judged {
            Intent::carried(slot)
        } else {
            datagram_intent(skb, packet, view.since_ns)
        },
        config,
        mode,
        judged,
        suspect: Cell::new(None),
        denial: Cell::new(None),
        slot: Cell::new(Slot::NONE),
    };
    let (verdict, decision) = decide_egress(packet, &tables);
    match decision {
        Decision::Follow => {
            maps::count(Reason::Nothing, Outcome::Redirected, skb.length());
            skb.carry(&view, tables.slot.get().number);
        }
        Decision::Redirect => {
            skb.carry(&view, tables.slot.get().number);
        }
        Decision::Reject => limit::take(config, &tables, skb.now_ns()),
        // No hook that the packet passes from here on may judge it by its socket again.
        Decision::Capture if skb.has_socket() => {
            skb.relabel(&view, skb.carried(&view), JUDGED);
        }
        _ => {}
    }
    telemetry::report(skb, packet, verdict, decision, &tables, debug);
    decision
}

/// ARP and non-IP packets. The sender of an ARP packet holds its address.
#[inline(always)]
fn without_packet(skb: &Skb, view: &View) -> Decision {
    if view.terminated != 0 {
        terminated::lift(skb, None);
    }
    Decision::Pass
}

/// The intent of a datagram of one of the node's own sockets. It is used up when the datagram leaves, to any destination.
#[inline(always)]
fn datagram_intent(skb: &Skb, packet: &Packet, since_ns: u64) -> Intent {
    let later_fragment = matches!(packet.transport, epguard_common::Transport::Fragment);
    if packet.protocol != UDP || later_fragment {
        return Intent::NONE;
    }
    let cookie = skb.socket_cookie();
    if cookie == 0 {
        return Intent::NONE;
    }
    leave(cookie, since_ns)
}

/// Not inlined: a socket's entry would take its part of the stack.
#[inline(never)]
fn leave(cookie: u64, since_ns: u64) -> Intent {
    maps::socket(cookie).map_or(Intent::NONE, |(entry, mut socket)| {
        let intent = socket.leave(clock::moment(since_ns));
        // SAFETY: a field of an entry that stays writable for the run of the program; see `leave` for CPUs that race.
        unsafe { (&raw mut (*entry).left).write_volatile(socket.left) };
        intent
    })
}

/// The Service that a connected socket is aimed at. Not inlined, as `leave`.
#[inline(never)]
fn peer(cookie: u64, since_ns: u64) -> Intent {
    maps::socket(cookie).map_or(Intent::NONE, |(_, socket)| socket.peer(since_ns))
}

/// What the decision looks up, in the maps. It keeps what it finds, for the report.
struct Tables<'a> {
    skb: &'a Skb,
    view: &'a View,
    carried: Intent,
    config: *const RawConfig,
    mode: Mode,
    /// Whether an egress hook has judged the packet before, and has used its socket's intent.
    judged: bool,
    /// The suspect that the packet goes to.
    suspect: Cell<Option<*mut Suspect>>,
    /// The denial that was found.
    denial: Cell<Option<maps::Denied>>,
    /// The Service that the packet is aimed at.
    slot: Cell<Slot>,
}

impl Model for Tables<'_> {
    #[inline(always)]
    fn suspect(&self, addr: &Addr) -> Option<u32> {
        let (suspect, flags) = maps::suspect(addr)?;
        self.suspect.set(Some(suspect));
        Some(flags)
    }

    #[inline(always)]
    fn intent(&self, packet: &Packet) -> Intent {
        let intent = if self.judged || self.carried.slot.is_some() || packet.protocol == UDP {
            self.carried
        } else {
            let cookie = self.skb.socket_cookie();
            peer(cookie, self.view.since_ns)
        };
        self.slot.set(intent.slot);
        intent
    }

    #[inline(always)]
    fn denial(&self, target: &DenialKey) -> Option<Proof> {
        let denied = maps::denial(target)?;
        self.denial.set(Some(denied));
        Some(denied.proof())
    }

    #[inline(always)]
    fn mode(&self) -> Mode {
        self.mode
    }

    #[inline(always)]
    fn mode_of(&self, reason: Reason) -> Mode {
        maps::mode_of(self.config, reason)
    }

    #[inline(always)]
    fn lease_is_valid(&self) -> bool {
        self.view.lease_is_valid(self.skb.now_ns())
    }
}

impl Evidence for Tables<'_> {
    #[inline(always)]
    fn rate(&self) -> Option<*mut Rate> {
        // SAFETY: a field of an entry that stays there for the run of the program.
        self.suspect
            .get()
            .map(|suspect| unsafe { &raw mut (*suspect).rate })
    }

    #[inline(always)]
    fn write_uids(&self, packet: &Packet, dead: *mut Uid, owner: *mut Uid) {
        if let Some(denied) = self.denial.get() {
            denied.write_uids(&DenialKey::of(packet, self.slot.get()), dead, owner);
        }
    }

    #[inline(always)]
    fn slot(&self) -> Slot {
        self.slot.get()
    }
}

impl ActionModel for Tables<'_> {
    type Frame = Skb;
    /// Kept as the [`destination`].
    type Backend = ();

    #[inline(always)]
    fn frame(&self) -> &Skb {
        self.skb
    }

    #[inline(always)]
    fn own_action(&self) -> Action {
        self.denial.get().map_or(Action::Unset, |denied| denied.action())
    }

    #[inline(always)]
    fn configured_action(&self, reason: Reason) -> Action {
        maps::action_of(self.config, reason)
    }

    #[inline(always)]
    fn can_capture(&self) -> bool {
        self.skb.can_capture()
    }

    #[inline(always)]
    fn service(&self) -> u16 {
        self.slot.get().number
    }

    #[inline(always)]
    fn can_carry(&self, number: u16) -> bool {
        self.skb.can_carry(number)
    }

    #[inline(always)]
    fn backend(&self, packet: &Packet) -> Option<()> {
        let destination = destination()?;
        destination.through = 0;
        maps::choose(packet, self.slot.get(), &mut destination.backend).then_some(())
    }

    #[inline(always)]
    fn is_live(&self, (): &()) -> bool {
        destination().is_some_and(|destination| redirect::is_live(&destination.backend))
    }

    #[inline(always)]
    fn has_route(&self, _: &Packet, (): &()) -> bool {
        // Nothing at an interface without hooks translates answers back.
        redirect::next_hop(self.skb.as_ptr().cast()) != 0
            && destination().is_some_and(|to| maps::is_hooked(to.through))
    }

    #[inline(always)]
    fn is_to_many(&self) -> bool {
        self.skb.is_to_many()
    }

    #[inline(always)]
    fn has_room(&self) -> bool {
        limit::has_room(self.config, self, self.skb.now_ns())
    }
}

impl EgressModel for Tables<'_> {
    #[inline(always)]
    fn may_follow(&self) -> bool {
        self.view.flows != 0 && !self.judged
    }

    #[inline(always)]
    fn is_redirected(&self, packet: &Packet, slot: Slot) -> bool {
        redirect::known(packet, slot)
    }

    #[inline(always)]
    fn may_be_wiped(&self) -> bool {
        self.view.wipers != 0
    }

    #[inline(always)]
    fn aimed_reason(&self, packet: &Packet) -> Option<Reason> {
        Reason::from_number(aimed_reason(packet)).filter(|reason| *reason != Reason::Nothing)
    }
}

/// The number of the reason, 0 if there is none. Not inlined, as `leave`.
#[inline(never)]
fn aimed_reason(packet: &Packet) -> u32 {
    let denied = aimed::aimed_at(packet).and_then(|slot| maps::denial(&DenialKey::of(packet, slot)));
    denied.map_or(0, |denied| denied.proof().reason as u32)
}
