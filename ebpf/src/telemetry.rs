//! Counting and reporting. Nothing here changes a verdict; what can't be reported is counted.

use crate::frame::Frame;
use crate::{clock, maps};
use aya_log_ebpf::info;
use epguard_common::{
    Action, Addr, Backends, Event, Fate, Outcome, Packet, Rate, Reason, Slot, Terminated, Uid, Verdict,
};

/// What was found on the way to a verdict.
pub trait Evidence {
    /// The limit of events, of the suspect that the packet is aimed at.
    fn rate(&self) -> Option<*mut Rate>;
    /// The pod that is meant, and the one that would be hit.
    fn uids(&self) -> (Uid, Uid);
    /// The Service that is meant.
    fn slot(&self) -> Slot;
    /// Where the denial steers to.
    fn backends(&self, packet: &Packet) -> Option<*const Backends>;
    /// How the denial itself wants to be carried out.
    fn action(&self) -> Action;
}

/// Counts what was decided and, for a denial, tells the agent.
#[inline(always)]
pub fn report<F: Frame, E: Evidence>(
    frame: &F,
    packet: &Packet,
    verdict: Verdict,
    fate: Fate,
    evidence: &E,
    debug: bool,
) {
    let Some((reason, outcome)) = verdict.counted_as(fate) else {
        return;
    };
    maps::count(reason, outcome, frame.length());
    if debug {
        log(frame, packet, reason, outcome);
    }
    if !matches!(verdict, Verdict::Deny { .. }) {
        return;
    }
    let now_ns = clock::now_ns();
    // SAFETY: the entry stays writable for the run of the program.
    match evidence.rate().map(|rate| unsafe { (*rate).admit(now_ns) }) {
        Some(true) => {}
        _ => return maps::count(reason, Outcome::EventSuppressed, 0),
    }
    if !maps::publish(&event(frame, packet, reason, outcome, evidence, now_ns)) {
        maps::count(reason, Outcome::EventLost, 0);
    }
}

/// Tells the agent, once, that somebody holds the address. If the ring is full, the entry tells it a little later.
#[inline(always)]
pub fn lifted<F: Frame>(frame: &F, address: &Addr, terminated: *mut Terminated, at_ns: u64) {
    let event = Event {
        at_ns,
        // SAFETY: the entry stays readable for the run of the program; UIDs are plain octets.
        dead_uid: unsafe { (*terminated).dead_uid },
        src: *address,
        dst: *address,
        reason: Reason::Terminated as u32,
        outcome: Outcome::Lifted as u32,
        ifindex: frame.ifindex(),
        length: frame.length(),
        ..Event::default()
    };
    if !maps::publish(&event) {
        maps::count(Reason::Terminated, Outcome::EventLost, 0);
    }
}

#[inline(always)]
fn event<F: Frame, E: Evidence>(
    frame: &F,
    packet: &Packet,
    reason: Reason,
    outcome: Outcome,
    evidence: &E,
    now_ns: u64,
) -> Event {
    let (dead_uid, owner_uid) = evidence.uids();
    Event {
        at_ns: now_ns,
        dead_uid,
        owner_uid,
        src: packet.src,
        dst: packet.dst,
        reason: reason as u32,
        outcome: outcome as u32,
        ifindex: frame.ifindex(),
        length: frame.length(),
        src_port: packet.src_port,
        dst_port: packet.dst_port,
        slot: evidence.slot(),
        protocol: packet.protocol,
        reserved: 0,
    }
}

/// Only with `--debug-datapath`. Not inlined, to leave the stack to those who run always.
#[inline(never)]
fn log<F: Frame>(frame: &F, packet: &Packet, reason: Reason, outcome: Outcome) {
    let (src, dst) = (packet.src.octets, packet.dst.octets);
    info!(
        frame,
        "{:i} -> {:i} reason {} outcome {}", src, dst, reason as u32, outcome as u32
    );
}
