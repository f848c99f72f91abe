//! A packet before and behind epguard's program at a hook: each field that a TC program can read,
//! and its octets.

use crate::maps::{self, Event};
use aya_ebpf::programs::TcContext;
use core::ptr::read_volatile;

/// Number of fields. Their names are in the lab's `neighbour` module, in this order.
pub const FIELDS: usize = 26;

/// Octets of a packet that are compared, and how many at a time.
const COMPARED: u32 = 2048;
const CHUNK: usize = 64;

/// A packet.
#[repr(C)]
pub struct Snapshot {
    fields: [u32; FIELDS],
}

/// Notes a packet.
#[inline(always)]
pub fn note(ctx: &TcContext) {
    if let Some(noted) = maps::noted() {
        noted.fields = fields(ctx);
    }
}

/// Counts a packet as the same that was noted, or each field that differs.
#[inline(always)]
pub fn compare(ctx: &TcContext) {
    let Some(noted) = maps::noted() else { return };
    let now = fields(ctx);
    let mut same = true;
    for (field, (noted, now)) in noted.fields.iter().zip(now).enumerate() {
        if *noted != now {
            maps::count_changed(field);
            same = false;
        }
    }
    if same {
        maps::count(Event::Same);
    }
}

#[inline(always)]
fn fields(ctx: &TcContext) -> [u32; FIELDS] {
    let octets = octets(ctx);
    let skb = ctx.skb.skb;
    // SAFETY: fields of the program's own context, in Linux from 5.18.
    unsafe {
        let read = |field: *const u32| read_volatile(field);
        let times = [
            read_volatile(&raw const (*skb).tstamp),
            read_volatile(&raw const (*skb).hwtstamp),
        ];
        [
            read(&raw const (*skb).len),
            read(&raw const (*skb).pkt_type),
            read(&raw const (*skb).mark),
            read(&raw const (*skb).queue_mapping),
            read(&raw const (*skb).protocol),
            read(&raw const (*skb).vlan_present),
            read(&raw const (*skb).vlan_tci),
            read(&raw const (*skb).vlan_proto),
            read(&raw const (*skb).priority),
            read(&raw const (*skb).ingress_ifindex),
            read(&raw const (*skb).ifindex),
            read(&raw const (*skb).tc_index),
            read(&raw const (*skb).cb[0]),
            read(&raw const (*skb).cb[1]),
            read(&raw const (*skb).cb[2]),
            read(&raw const (*skb).cb[3]),
            read(&raw const (*skb).cb[4]),
            read(&raw const (*skb).hash),
            read(&raw const (*skb).tc_classid),
            read(&raw const (*skb).napi_id),
            read(&raw const (*skb).wire_len),
            read(&raw const (*skb).gso_segs),
            read(&raw const (*skb).gso_size),
            fold(times[0]),
            fold(times[1]),
            octets,
        ]
    }
}

/// A hash of the packet's first octets. The verifier wants each load to have a constant length.
#[inline(always)]
fn octets(ctx: &TcContext) -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let length = if ctx.len() < COMPARED {
        ctx.len()
    } else {
        COMPARED
    } as usize;
    let mut at = 0;
    while at + CHUNK <= length {
        for word in ctx.load::<[u64; CHUNK / 8]>(at).unwrap_or_default() {
            hash = add(hash, word);
        }
        at += CHUNK;
    }
    let mut rest = 0;
    while at + rest * 4 + 4 <= length && rest < CHUNK / 4 {
        hash = add(
            hash,
            ctx.load::<u32>(at + rest * 4).unwrap_or_default().into(),
        );
        rest += 1;
    }
    let mut last = at + rest * 4;
    while last < length && last < at + CHUNK {
        hash = add(hash, ctx.load::<u8>(last).unwrap_or_default().into());
        last += 1;
    }
    fold(hash)
}

#[inline(always)]
const fn add(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(17)
}

#[inline(always)]
fn fold(number: u64) -> u32 {
    (number ^ number >> 32) as u32
}
