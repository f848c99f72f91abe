//! Counts and reports. No verdict depends on it; an event that cannot be sent is counted.

use crate::frame::Origin;
use crate::maps;
use aya_log_ebpf::info;
use core::ptr::copy_nonoverlapping;
use epguard_common::{
    Addr, Decision, DenialKey, Event, Outcome, Packet, Rate, Reason, Terminated, Uid, Verdict,
    counter,
};

/// What the decision has found.
pub trait Evidence {
    /// The limit of events of the suspect that the packet goes to.
    fn rate(&self) -> Option<*mut Rate>;
    /// Writes the pod that the Service meant, and the one that would be hit.
    fn write_uids(&self, dead: *mut Uid, owner: *mut Uid);
    /// The key of the denial.
    fn key(&self) -> &DenialKey;
    /// The client, before masquerade where that is known.
    fn client(&self) -> (&Addr, u16);
}

/// Counts the decision and, for a denial, sends the agent an event.
#[inline(always)]
pub fn report<F: Origin, E: Evidence>(
    frame: &F,
    packet: &Packet,
    verdict: Verdict,
    decision: Decision,
    evidence: &E,
    debug: bool,
) {
    let Some((reason, outcome)) = verdict.counted_as(decision) else {
        return;
    };
    if let Some(beside) = decision.counted_beside() {
        count_beside::<F>(reason, beside);
    }
    if debug {
        log(frame, packet, reason, outcome);
    }
    if !matches!(verdict, Verdict::Deny { .. }) {
        return count::<F>(reason, outcome, frame.length(), packet.opens());
    }
    let now_ns = frame.now_ns();
    let key = evidence.key();
    let counter = counter(reason, outcome);
    if F::MAY_BE_INTERRUPTED {
        maps::count_denied::<true>(key, counter, frame.length(), packet.opens(), now_ns);
    } else {
        maps::count_denied::<false>(key, counter, frame.length(), packet.opens(), now_ns);
    }
    match evidence.rate().map(|rate| admit(rate, now_ns)) {
        Some(true) => {}
        Some(false) | None => return count_beside::<F>(reason, Outcome::EventSuppressed),
    }
    let Some(mut entry) = maps::event() else {
        return count_beside::<F>(reason, Outcome::EventLost);
    };
    let event = entry.as_mut_ptr();
    let (client, client_port) = evidence.client();
    // SAFETY: memory of the ring, which is this program's until it submits it.
    unsafe {
        write(event, frame, reason, outcome, now_ns);
        copy_nonoverlapping(client, &raw mut (*event).src, 1);
        (*event).src_port = client_port;
        copy_nonoverlapping(&raw const packet.dst, &raw mut (*event).dst, 1);
        (*event).dst_port = packet.dst_port;
        (*event).protocol = packet.protocol;
        if key.service.is_some() {
            // A later fragment shows no port, and an ICMP error is one about another protocol.
            (*event).dst_port = key.port;
            (*event).protocol = key.protocol;
        }
        (*event).service = key.service;
        evidence.write_uids(&raw mut (*event).dead_uid, &raw mut (*event).owner_uid);
    }
    entry.submit(0);
}

/// Counts an event beside a packet.
#[inline(always)]
fn count_beside<F: Origin>(reason: Reason, outcome: Outcome) {
    count::<F>(reason, outcome, 0, false);
}

#[inline(always)]
fn count<F: Origin>(reason: Reason, outcome: Outcome, bytes: u32, opens: bool) {
    if F::MAY_BE_INTERRUPTED {
        maps::count_packet::<true>(reason, outcome, bytes, opens);
    } else {
        maps::count_packet::<false>(reason, outcome, bytes, opens);
    }
}

/// Whether there is room for an event. CPUs may race for it.
#[inline(always)]
fn admit(rate: *mut Rate, now_ns: u64) -> bool {
    // SAFETY: fields of an entry that stays writable for the run of the program; every bit pattern
    // is a number.
    unsafe {
        let window_ns = &raw mut (*rate).window_ns;
        let events = &raw mut (*rate).events;
        let mut now = Rate {
            window_ns: window_ns.read_volatile(),
            events: events.read_volatile(),
            ..Rate::default()
        };
        let admitted = now.admit(now_ns);
        window_ns.write_volatile(now.window_ns);
        events.write_volatile(now.events);
        admitted
    }
}

/// Reports once that a pod holds the address. If the ring is full, the agent reads it from the
/// entry a little later.
#[inline(always)]
pub fn lifted<F: Origin>(frame: &F, address: &Addr, terminated: *const Terminated, at_ns: u64) {
    let Some(mut entry) = maps::event() else {
        return maps::count(Reason::Terminated, Outcome::EventLost, 0);
    };
    let event = entry.as_mut_ptr();
    // SAFETY: as in `report`; the entry stays readable for the run of the program, and UIDs are
    // plain octets.
    unsafe {
        write(event, frame, Reason::Terminated, Outcome::Lifted, at_ns);
        copy_nonoverlapping(
            &raw const (*terminated).dead_uid,
            &raw mut (*event).dead_uid,
            1,
        );
        copy_nonoverlapping(address, &raw mut (*event).src, 1);
        copy_nonoverlapping(address, &raw mut (*event).dst, 1);
    }
    entry.submit(0);
}

/// Writes the fields that every event has, one by one: a whole event would be made on the stack
/// first. The others are 0.
#[inline(always)]
unsafe fn write<F: Origin>(
    event: *mut Event,
    frame: &F,
    reason: Reason,
    outcome: Outcome,
    at_ns: u64,
) {
    // SAFETY: the caller's memory, which has room for an event.
    unsafe {
        // The compiler would call a function that writes octet by octet.
        for word in 0..size_of::<Event>() / 8 {
            event.cast::<u64>().add(word).write_volatile(0);
        }
        (*event).at_ns = at_ns;
        (*event).reason = reason as u32;
        (*event).outcome = outcome as u32;
        (*event).ifindex = frame.ifindex();
        (*event).length = frame.length();
    }
}

/// Only with `--debug-datapath`. Not inlined, to keep its stack out of the programs' own.
#[inline(never)]
fn log<F: Origin>(frame: &F, packet: &Packet, reason: Reason, outcome: Outcome) {
    let src = packet.src.octets;
    let dst = packet.dst.octets;
    info!(
        frame,
        "{:i} -> {:i} reason {} outcome {}", src, dst, reason as u32, outcome as u32
    );
}
