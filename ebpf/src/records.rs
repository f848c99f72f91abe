//! What the translators recorded about a packet that leaves: netfilter's conntrack, else Cilium's, else the packet's socket.

use crate::redirected::of_endpoint;
use crate::{cilium, conntrack, maps, socket};
use aya_ebpf::bindings::__sk_buff;
use epguard_common::Flow;

/// The answer of the translators. As a number, since global functions return nothing else.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// No translator has a record.
    Nothing = 0,
    /// conntrack's entry contradicts the packet.
    Unreadable = 1,
    /// The packet is a reply, or its destination was not translated.
    Direct = 2,
    /// netfilter translated the destination. The scratch map has what the client asked for.
    Conntrack = 3,
    /// Another translator did. netfilter does not translate the replies, so such a flow is never redirected.
    Elsewhere = 4,
}

impl Found {
    /// Reads the number of a global function.
    #[inline(always)]
    pub const fn of(number: u32) -> Self {
        match number {
            1 => Self::Unreadable,
            2 => Self::Direct,
            3 => Self::Conntrack,
            4 => Self::Elsewhere,
            _ => Self::Nothing,
        }
    }
}

/// What is recorded about the packet in the scratch map. `TEST`: conntrack's entry is that of `TEST_ENTRY`.
#[inline(always)]
pub fn find<const TEST: bool>(context: *mut __sk_buff) -> Found {
    let found = Found::of(if TEST {
        conntrack::read_test_entry()
    } else {
        conntrack::read_entry(context)
    });
    match found {
        Found::Conntrack => found,
        Found::Unreadable if is_redirected_here() => Found::Direct,
        _ if cilium::translated() != 0 || socket::has_left_by(context) != 0 => Found::Elsewhere,
        _ => found,
    }
}

/// Whether the packet in the scratch map goes to the live endpoint of a redirected flow. conntrack has the denied one.
#[inline(always)]
fn is_redirected_here() -> bool {
    maps::view().is_some_and(|view| view.flows != 0)
        && maps::packet().is_some_and(|packet| of_endpoint(Flow::to(packet)).is_some())
}
