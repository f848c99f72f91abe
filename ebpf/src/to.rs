//! Leaving towards a pod, after DNAT: may the Service that was meant still send there?

use crate::frame::Frame as _;
use crate::skb::Skb;
use crate::telemetry::{self, Evidence};
use crate::{clock, direct, maps};
use core::cell::Cell;
use epguard_common::{
    Addr, Config, Denial, Intent, Mode, Model, Packet, Proof, Rate, Reason, Slot, Suspect, Target, Uid,
    Verdict,
};

const UDP: u8 = 17;

/// Judges the packet, counts it and reports a denial. The verdict stands before anything is reported.
#[inline(always)]
pub fn judge(skb: &Skb) -> Verdict {
    let Some(view) = maps::view().filter(|view| view.suspects != 0 || view.terminated != 0) else {
        return Verdict::Clear;
    };
    let packet = skb.packet();
    if view.terminated != 0 {
        direct::lift(skb, packet.as_ref());
    }
    if view.suspects == 0 {
        return Verdict::Clear;
    }
    let (carried, judged) = skb.take_intent();
    let Some((config, mode, debug)) = maps::config() else {
        return Verdict::Clear;
    };
    if mode == Mode::Off {
        return Verdict::Clear;
    }
    let Some(packet) = packet else {
        return Verdict::Clear;
    };
    let tables = Tables {
        skb,
        carried: if carried.is_some() || judged {
            Intent::carried(carried)
        } else {
            datagram_intent(skb, &packet, view.since_ns)
        },
        config,
        mode,
        lease_deadline_ns: view.lease_deadline_ns,
        since_ns: view.since_ns,
        suspect: Cell::new(None),
        denial: Cell::new(None),
        slot: Cell::new(Slot::NONE),
    };
    let verdict = epguard_common::judge(&packet, &tables);
    telemetry::report(skb, &packet, verdict, &tables, debug);
    verdict
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
    // SAFETY: the entry stays writable for the run of the program; see `leave` for CPUs that race.
    maps::socket(cookie).map_or(Intent::NONE, |socket| unsafe {
        (*socket).leave(clock::moment(since_ns))
    })
}

/// The decision's questions, answered from the maps. What was found on the way is kept for the report.
struct Tables<'a> {
    skb: &'a Skb,
    carried: Intent,
    config: *const Config,
    mode: Mode,
    lease_deadline_ns: u64,
    since_ns: u64,
    /// The suspect that the packet is aimed at.
    suspect: Cell<Option<*mut Suspect>>,
    /// The denial that was found.
    denial: Cell<Option<*const Denial>>,
    /// The Service that is meant.
    slot: Cell<Slot>,
}

impl Model for Tables<'_> {
    #[inline(always)]
    fn suspect(&self, addr: &Addr) -> Option<u32> {
        let suspect = maps::suspect(addr)?;
        self.suspect.set(Some(suspect));
        // SAFETY: the entry stays readable for the run of the program.
        Some(unsafe { (*suspect).flags })
    }

    #[inline(always)]
    fn intent(&self, packet: &Packet) -> Intent {
        let intent = if self.carried.slot.is_some() || packet.protocol == UDP {
            self.carried
        } else {
            let cookie = self.skb.socket_cookie();
            // SAFETY: as in `datagram_intent`.
            maps::socket(cookie).map_or(Intent::NONE, |socket| unsafe { (*socket).peer(self.since_ns) })
        };
        self.slot.set(intent.slot);
        intent
    }

    #[inline(always)]
    fn denial(&self, target: &Target) -> Option<Proof> {
        let (denial, proof) = maps::denial(target)?;
        self.denial.set(Some(denial));
        Some(proof)
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
    fn uids(&self) -> (Uid, Uid) {
        // SAFETY: as in `rate`; UIDs are plain octets.
        let uids = self
            .denial
            .get()
            .map(|denial| unsafe { ((*denial).dead_uid, (*denial).owner_uid) });
        uids.unwrap_or_default()
    }

    #[inline(always)]
    fn slot(&self) -> Slot {
        self.slot.get()
    }
}
