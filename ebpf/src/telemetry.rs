//! Counting and reporting. Nothing here changes a verdict; what can't be reported is counted.

use crate::{maps, skb, to::Tables};
use aya_ebpf::programs::TcContext;
use aya_log_ebpf::info;
use epguard_common::{Event, Outcome, Packet, Reason, Suspect, Verdict};

const SECOND_NS: u64 = 1_000_000_000;

/// Counts what was decided and, for a denial, tells the agent.
#[inline(always)]
pub fn report(ctx: &TcContext, packet: &Packet, verdict: Verdict, tables: &Tables<'_>, debug: bool) {
    let Some((reason, outcome)) = verdict.counted() else {
        return;
    };
    maps::count(reason, outcome, ctx.len());
    if debug {
        log(ctx, packet, reason, outcome);
    }
    if !matches!(verdict, Verdict::Deny { .. }) {
        return;
    }
    let now_ns = skb::now_ns();
    match tables.suspect.get() {
        Some(suspect) if within_rate(suspect, now_ns) => {}
        _ => return maps::count(reason, Outcome::EventSuppressed, 0),
    }
    if !maps::publish(&event(ctx, packet, reason, outcome, tables, now_ns)) {
        maps::count(reason, Outcome::EventLost, 0);
    }
}

#[inline(always)]
fn event(
    ctx: &TcContext,
    packet: &Packet,
    reason: Reason,
    outcome: Outcome,
    tables: &Tables<'_>,
    now_ns: u64,
) -> Event {
    let (dead_uid, owner_uid) = tables
        .denial
        .get()
        // SAFETY: the entry stays readable for the run of the program; UIDs are plain octets.
        .map_or_else(Default::default, |denial| unsafe {
            ((*denial).dead_uid, (*denial).owner_uid)
        });
    Event {
        at_ns: now_ns,
        dead_uid,
        owner_uid,
        src: packet.src,
        dst: packet.dst,
        reason: reason as u32,
        outcome: outcome as u32,
        // SAFETY: a field of the program's own context.
        ifindex: unsafe { (*ctx.skb.skb).ifindex },
        length: ctx.len(),
        src_port: packet.src_port,
        dst_port: packet.dst_port,
        slot: tables.slot.get(),
        protocol: packet.protocol,
        reserved: 0,
    }
}

/// Whether the suspect still has room for an event in this second. CPUs may race for it: a few events more or
/// less are no matter.
#[inline(always)]
fn within_rate(suspect: *mut Suspect, now_ns: u64) -> bool {
    // SAFETY: the entry stays readable and writable for the run of the program.
    unsafe {
        if now_ns.wrapping_sub((*suspect).window_ns) > SECOND_NS {
            (*suspect).window_ns = now_ns;
            (*suspect).events = 0;
        }
        (*suspect).events += 1;
        (*suspect).events <= Suspect::EVENTS_PER_SECOND
    }
}

/// Only with `--debug-datapath`.
#[inline(always)]
fn log(ctx: &TcContext, packet: &Packet, reason: Reason, outcome: Outcome) {
    let (src, dst) = (packet.src.octets, packet.dst.octets);
    info!(
        ctx,
        "{:i} -> {:i} reason {} outcome {}", src, dst, reason as u32, outcome as u32
    );
}
