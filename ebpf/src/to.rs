//! Leaving towards a pod, after DNAT: may the Service that was meant still send there?

use crate::frame::Frame as _;
use crate::skb::Skb;
use crate::telemetry::{self, Evidence};
use crate::{aimed, clock, direct, maps, reject, steer};
use core::cell::Cell;
use epguard_common::{
    Action, Addr, Backend, Fate, Intent, JUDGED, Mode, Model, Outcome, Packet, Proof, Rate, RawConfig,
    Reason, Slot, Suspect, Target, Uid, Verdict, View,
};

const UDP: u8 = 17;

/// Judges the packet, counts it and reports a denial. The verdict stands before anything is reported.
#[inline(always)]
pub fn judge(skb: &Skb) -> Fate {
    let Some(view) = maps::active() else {
        return Fate::Pass;
    };
    let carried = skb.carried(&view);
    skb.hand_on(&view, carried);
    if view.is_answer(carried) {
        return Fate::Pass;
    }
    // First of all: the verifier of Linux 6.1 loses sight of what an Option is about where much comes in between.
    let Some(packet) = skb.packet() else {
        return without_packet(skb, &view);
    };
    if view.terminated != 0 {
        direct::lift(skb, Some(packet));
    }
    if view.suspects == 0 && view.flows == 0 {
        return Fate::Pass;
    }
    let (slot, judged) = (Slot::from_carried(carried), carried == JUDGED);
    let Some((config, mode, debug)) = maps::config() else {
        return Fate::Pass;
    };
    if mode == Mode::Off {
        return Fate::Pass;
    }
    let tables = Tables {
        skb,
        carried: if slot.is_some() || judged {
            Intent::carried(slot)
        } else {
            datagram_intent(skb, packet, view.since_ns)
        },
        config,
        mode,
        lease_deadline_ns: view.lease_deadline_ns,
        since_ns: view.since_ns,
        judged,
        suspect: Cell::new(None),
        denial: Cell::new(None),
        slot: Cell::new(Slot::NONE),
    };
    if view.flows != 0 && !judged && is_steered(packet, &tables) {
        maps::count(Reason::Nothing, Outcome::Redirected, skb.length());
        skb.carry(&view, tables.slot.get().number);
        return Fate::Steer;
    }
    let mut verdict = epguard_common::judge(packet, &tables);
    if verdict == Verdict::Pass(Reason::Nothing, Outcome::NoIntent) {
        verdict = why_no_intent(packet, &view, verdict);
    }
    let fate = reject::fate(skb, packet, verdict, &tables, config);
    match fate {
        Fate::Steer => {
            skb.carry(&view, tables.slot.get().number);
        }
        // The hooks that it passes from here on must not judge it by its socket once more.
        Fate::Capture if skb.has_socket() => {
            skb.relabel(&view, skb.carried(&view), JUDGED);
        }
        _ => {}
    }
    telemetry::report(skb, packet, verdict, fate, &tables, debug);
    fate
}

/// ARP, whose sender shows that it is there, and what is aimed at no pod.
#[inline(always)]
fn without_packet(skb: &Skb, view: &View) -> Fate {
    if view.terminated != 0 {
        direct::lift(skb, None);
    }
    Fate::Pass
}

/// Why a packet to a suspect carries no Service, if an ingress hook saw its sender aim at one that is denied this endpoint:
/// the lease has ended, or a foreign program has wiped the number. Only counted: a source port may have several
/// destinations.
#[inline(always)]
fn why_no_intent(packet: &Packet, view: &View, verdict: Verdict) -> Verdict {
    let lapsed = clock::now_ns() > view.lease_deadline_ns;
    if !packet.transport.has_ports() || view.wipers == 0 && !lapsed {
        return verdict;
    }
    let denial = aimed::aimed_at(packet).and_then(|slot| maps::denial(&Target::of(packet, slot)));
    match denial {
        Some(denied) if lapsed => Verdict::Pass(denied.proof().reason, Outcome::LeaseExpired),
        Some(denied) => Verdict::Pass(denied.proof().reason, Outcome::IntentLost),
        None => verdict,
    }
}

/// Whether the packet belongs to a flow that was steered before, as long as somebody vouches for the endpoint.
#[inline(always)]
fn is_steered(packet: &Packet, tables: &Tables<'_>) -> bool {
    let slot = tables.intent(packet).slot;
    slot.is_some()
        && tables.skb.can_turn(slot.number)
        && tables.lease_is_valid()
        && steer::is_steerable(tables.skb, packet)
        && steer::known(packet, slot).is_some()
}

/// A datagram of one of the node's own sockets uses up its destination when it leaves, suspect or not.
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

/// Not inlined: a socket would take its part of the stack.
#[inline(never)]
fn leave(cookie: u64, since_ns: u64) -> Intent {
    maps::socket(cookie).map_or(Intent::NONE, |(entry, mut socket)| {
        let intent = socket.leave(clock::moment(since_ns));
        // SAFETY: a field of an entry that stays writable for the run of the program; see `leave` for CPUs that race.
        unsafe { (&raw mut (*entry).left).write_volatile(socket.left) };
        intent
    })
}

/// Likewise.
#[inline(never)]
fn peer(cookie: u64, since_ns: u64) -> Intent {
    maps::socket(cookie).map_or(Intent::NONE, |(_, socket)| socket.peer(since_ns))
}

/// The decision's questions, answered from the maps. What was found on the way is kept for the report.
struct Tables<'a> {
    skb: &'a Skb,
    carried: Intent,
    config: *const RawConfig,
    mode: Mode,
    lease_deadline_ns: u64,
    since_ns: u64,
    /// Whether an egress hook has judged the packet before: what its socket is aimed at was used there.
    judged: bool,
    /// The suspect that the packet is aimed at.
    suspect: Cell<Option<*mut Suspect>>,
    /// The denial that was found.
    denial: Cell<Option<maps::Denied>>,
    /// The Service that is meant.
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
            peer(cookie, self.since_ns)
        };
        self.slot.set(intent.slot);
        intent
    }

    #[inline(always)]
    fn denial(&self, target: &Target) -> Option<Proof> {
        let denied = maps::denial(target)?;
        self.denial.set(Some(denied));
        Some(denied.proof())
    }

    #[inline(always)]
    fn mode(&self, reason: Reason) -> Mode {
        maps::mode_of(self.config, self.mode, reason)
    }

    #[inline(always)]
    fn lease_is_valid(&self) -> bool {
        clock::now_ns() <= self.lease_deadline_ns
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
    fn tell_uids(&self, packet: &Packet, dead: *mut Uid, owner: *mut Uid) {
        if let Some(denied) = self.denial.get() {
            denied.tell_uids(&Target::of(packet, self.slot.get()), dead, owner);
        }
    }

    #[inline(always)]
    fn slot(&self) -> Slot {
        self.slot.get()
    }

    #[inline(always)]
    fn backend(&self, packet: &Packet) -> Option<Backend> {
        maps::backend(packet, self.slot.get())
    }

    #[inline(always)]
    fn action(&self) -> Action {
        self.denial.get().map_or(Action::Unset, |denied| denied.action())
    }
}
