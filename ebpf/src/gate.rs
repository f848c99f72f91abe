//! Ends packets that need no verdict, by a look at their addresses. In doubt a packet is judged.

use crate::linear::Linear;
use crate::maps;
use aya_ebpf::bindings::{__sk_buff, xdp_md};
use epguard_common::{Addr, Bytes as _, Glance, View};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// Whether the packet needs a verdict at the ingress hook.
#[inline(always)]
pub fn asks_at_ingress(context: *mut __sk_buff) -> bool {
    let Some(view) = maps::view() else { return false };
    if view.is_idle_at_ingress() {
        return false;
    }
    look(context, &view).is_none_or(|glance| glance.asks_at_ingress(&view))
}

/// Whether the packet needs a verdict at the egress hook.
#[inline(always)]
pub fn asks_at_egress(context: *mut __sk_buff) -> bool {
    let Some(view) = maps::active() else { return false };
    look(context, &view).is_none_or(|glance| glance.asks_at_egress(&view))
}

#[inline(always)]
fn look(context: *mut __sk_buff, view: &View) -> Option<Glance> {
    glance(&Linear::from_context(context)?, view)
}

/// Whether the frame needs a verdict before its skb is made.
#[inline(always)]
pub fn asks_at_xdp(context: *mut xdp_md, view: &View) -> bool {
    let glance = Linear::of_raw(context).and_then(|frame| glance(&frame, view));
    glance.is_none_or(|glance| glance.asks_about_orphans(view))
}

/// A look at a packet. `None`: it is not one of IP, or not whole, or the table does not show all addresses.
#[inline(always)]
fn glance(frame: &Linear, view: &View) -> Option<Glance> {
    let buckets = maps::buckets(view.flows != 0)?;
    let has_sources = view.flows != 0 || view.terminated != 0;
    let source = |words| if has_sources { buckets.flags_at(words) } else { 0 };
    match frame.ether_type() {
        IPV4 => {
            let [first, _, time_to_live, src, dst] = frame.words::<5>(0)?;
            let v4 = |word| Addr::from_v4_word(word).words();
            (first.to_ne_bytes()[0] >> 4 == 4).then_some(())?;
            Some(Glance {
                src: source(v4(src)),
                dst: buckets.flags_at(v4(dst)),
                protocol: time_to_live.to_ne_bytes()[1],
                is_v6: false,
            })
        }
        IPV6 => {
            let [first, second, s0, s1, s2, s3, d0, d1, d2, d3] = frame.words::<10>(0)?;
            (first.to_ne_bytes()[0] >> 4 == 6).then_some(())?;
            Some(Glance {
                src: source([s0, s1, s2, s3]),
                dst: buckets.flags_at([d0, d1, d2, d3]),
                protocol: second.to_ne_bytes()[2],
                is_v6: true,
            })
        }
        _ => None,
    }
}
