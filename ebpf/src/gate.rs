//! Ends packets that need no verdict, by a look at their addresses. In doubt a packet is judged.

use crate::maps;
use aya_ebpf::bindings::{__sk_buff, xdp_md};
use epguard_common::{Addr, Glance, View};

/// `EtherType`s as they lie in memory.
const IPV4: u16 = 0x0800_u16.to_be();
const IPV6: u16 = 0x86dd_u16.to_be();
const ETHERNET: usize = 14;

/// Whether the packet needs a verdict at the ingress hook.
#[inline(always)]
pub fn asks_at_ingress(context: *mut __sk_buff) -> bool {
    let Some(view) = maps::view() else { return false };
    if view.flows != 0 {
        return true;
    }
    let by_socket = view.socket_lb != 0 && view.suspects != 0;
    if view.vips == 0 && view.terminated == 0 && !by_socket {
        return false;
    }
    // SAFETY: fields of the program's own context. A number that the packet carries, or seems to carry, has to be removed.
    let carried = unsafe { view.carried((*context).tc_index) | view.carried((*context).tc_classid) };
    carried != 0 || glance(context).is_none_or(|glance| glance.asks_at_ingress(&view))
}

/// Whether the packet needs a verdict at the egress hook.
#[inline(always)]
pub fn asks_at_egress(context: *mut __sk_buff) -> bool {
    let Some(view) = maps::active() else { return false };
    // SAFETY: fields of the program's own context; the socket is compared with null only.
    let (carried, has_socket) = unsafe {
        (
            view.carried((*context).tc_index),
            !(*context).__bindgen_anon_2.sk.is_null(),
        )
    };
    if view.flows != 0 || carried != 0 {
        return true;
    }
    let relabels = maps::relabels();
    glance(context).is_none_or(|glance| glance.asks_at_egress(&view, relabels, has_socket))
}

/// Whether the frame needs a verdict before its skb is made.
#[inline(always)]
pub fn asks_at_xdp(context: *mut xdp_md, view: &View) -> bool {
    // SAFETY: fields of the program's own context.
    let (start, end) = unsafe { ((*context).data as usize, (*context).data_end as usize) };
    if start + ETHERNET > end {
        return true;
    }
    // SAFETY: inside of the frame.
    let ether_type = unsafe { half(start + 12) };
    at(start + ETHERNET, end, ether_type).is_none_or(|glance| glance.asks_about_orphans(view))
}

/// A look at a packet whose network header lies directly behind an Ethernet header. `None`: it lies elsewhere, it may, or it is
/// not in the linear part.
#[inline(always)]
fn glance(context: *mut __sk_buff) -> Option<Glance> {
    // SAFETY: fields of the program's own context.
    let (start, end, protocol, length) = unsafe {
        (
            (*context).data as usize,
            (*context).data_end as usize,
            (*context).protocol as u16,
            (*context).len,
        )
    };
    if start + ETHERNET > end {
        return None;
    }
    // SAFETY: inside of the frame.
    let (ether_type, first, v4_length, v6_length) =
        unsafe { (half(start + 12), octet(start), half(start + 2), half(start + 4)) };
    if ether_type != protocol {
        return None;
    }
    // A device without link-layer headers: the packet begins at the start, and its addresses may look like an EtherType.
    let seems_bare = match first >> 4 {
        4 => u32::from(u16::from_be(v4_length)) <= length,
        6 => u32::from(u16::from_be(v6_length)) + 40 <= length,
        _ => false,
    };
    if seems_bare {
        return None;
    }
    at(start + ETHERNET, end, ether_type)
}

/// A look at the IP header that begins at `at`.
#[inline(always)]
fn at(at: usize, end: usize, ether_type: u16) -> Option<Glance> {
    // SAFETY: inside of the frame, as compared. IP headers are aligned to words behind an Ethernet header, where it matters.
    unsafe {
        match ether_type {
            IPV4 if at + 20 <= end && octet(at) >> 4 == 4 => {
                let v4 = |at| Addr::from_v4_word(word(at)).words();
                Some(Glance {
                    src: maps::bits(v4(at + 12))?,
                    dst: maps::bits(v4(at + 16))?,
                    protocol: octet(at + 9),
                    is_v6: false,
                })
            }
            IPV6 if at + 40 <= end && octet(at) >> 4 == 6 => {
                let v6 = |at| [word(at), word(at + 4), word(at + 8), word(at + 12)];
                Some(Glance {
                    src: maps::bits(v6(at + 8))?,
                    dst: maps::bits(v6(at + 24))?,
                    protocol: octet(at + 6),
                    is_v6: true,
                })
            }
            _ => None,
        }
    }
}

/// An octet of the frame.
///
/// SAFETY: the caller has compared its address with the end of the frame.
#[inline(always)]
unsafe fn octet(at: usize) -> u8 {
    // SAFETY: the caller's.
    unsafe { *(at as *const u8) }
}

/// Two octets, as `octet`.
#[inline(always)]
unsafe fn half(at: usize) -> u16 {
    // SAFETY: the caller's.
    unsafe { *(at as *const u16) }
}

/// Four octets, as `octet`.
#[inline(always)]
unsafe fn word(at: usize) -> u32 {
    // SAFETY: the caller's.
    unsafe { *(at as *const u32) }
}
