//! Ends packets that need no verdict, by a look at their addresses. In doubt a packet is judged.

use crate::linear::Linear;
use crate::maps::{self, Buckets};
use aya_ebpf::bindings::{__sk_buff, xdp_md};
use epguard_common::protocol::{IPV4, IPV6};
use epguard_common::{Addr, Bytes as _, Glance, View};

/// Whether the packet needs a verdict at the ingress hook.
#[inline(always)]
pub fn asks_at_ingress(context: *mut __sk_buff) -> bool {
    let Some(view) = maps::view() else {
        return false;
    };
    if view.is_idle_at_ingress() {
        return false;
    }
    look(context, &view, GATE).is_none_or(|glance| glance.asks_at_ingress(&view))
        && asks_again_at_ingress(context)
}

/// The same by both tables. Few packets come here. Not inlined, as the next one: its stack is free
/// again for what follows.
#[inline(never)]
fn asks_again_at_ingress(context: *mut __sk_buff) -> bool {
    let Some(view) = maps::view() else {
        return false;
    };
    look(context, &view, BOTH).is_none_or(|glance| glance.asks_at_ingress(&view))
}

/// Whether the packet needs a verdict at the egress hook.
#[inline(always)]
pub fn asks_at_egress(context: *mut __sk_buff) -> bool {
    let Some(view) = maps::active() else {
        return false;
    };
    look(context, &view, GATE).is_none_or(Glance::asks_at_egress) && asks_again_at_egress(context)
}

#[inline(never)]
fn asks_again_at_egress(context: *mut __sk_buff) -> bool {
    let Some(view) = maps::active() else {
        return false;
    };
    look(context, &view, BOTH).is_none_or(Glance::asks_at_egress)
}

#[inline(always)]
fn look(context: *mut __sk_buff, view: &View, lookup: BucketLookup) -> Option<Glance> {
    glance(&Linear::from_context(context)?, view, lookup)
}

/// Whether the frame needs a verdict before its skb is made.
#[inline(always)]
pub fn asks_at_xdp(context: *mut xdp_md, view: &View) -> bool {
    let glance = Linear::of_xdp(context).and_then(|frame| glance(&frame, view, GATE));
    glance.is_none_or(Glance::asks_about_orphans)
}

/// Looks up the buckets of one table or both, with those of redirected flows if these are wanted,
/// too.
type BucketLookup = fn(bool) -> Option<Buckets>;
const GATE: BucketLookup = maps::buckets;
const BOTH: BucketLookup = maps::both_buckets;

/// A look at a packet. `None`: it is not one of IP, or not whole, or GATE does not show all
/// addresses.
#[inline(always)]
fn glance(frame: &Linear, view: &View, lookup: BucketLookup) -> Option<Glance> {
    let buckets = lookup(view.flows != 0)?;
    let has_sources = view.flows != 0 || view.terminated != 0;
    match frame.ether_type() {
        IPV4 => {
            let [first, _, _, src, dst] = frame.words::<5>(0)?;
            if first.to_ne_bytes()[0] >> 4 != 4 {
                return None;
            }
            let src = Addr::from_v4_word(src).words();
            let dst = Addr::from_v4_word(dst).words();
            Some(Glance {
                src: if has_sources {
                    buckets.flags_at(src)
                } else {
                    0
                },
                dst: buckets.flags_at(dst),
            })
        }
        IPV6 => {
            let [first, _, s0, s1, s2, s3, d0, d1, d2, d3] = frame.words::<10>(0)?;
            if first.to_ne_bytes()[0] >> 4 != 6 {
                return None;
            }
            let src = [s0, s1, s2, s3];
            let dst = [d0, d1, d2, d3];
            Some(Glance {
                src: if has_sources {
                    buckets.flags_at(src)
                } else {
                    0
                },
                dst: buckets.flags_at(dst),
            })
        }
        _ => None,
    }
}
