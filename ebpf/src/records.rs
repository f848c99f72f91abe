//! What the translators recorded about a packet that leaves: netfilter's conntrack, else Cilium's,
//! else the packet's socket.

use crate::found::Found;
use crate::frame::Origin as _;
use crate::redirected::of_endpoint;
use crate::skb::Skb;
use crate::{cilium, conntrack, maps, socket};
use aya_ebpf::bindings::__sk_buff;
use epguard_common::{Flow, Role};

/// What is recorded about the packet in the scratch map. `TEST`: conntrack's entry is that of
/// `TEST_ENTRY`.
#[inline(always)]
pub fn find<const TEST: bool>(context: *mut __sk_buff) -> Found {
    let found = Found::from_number(if TEST {
        conntrack::read_test_entry()
    } else {
        conntrack::read_entry(context)
    });
    match found {
        Found::Conntrack => found,
        Found::Unreadable if is_redirected_here() => {
            maps::mean_itself();
            Found::Direct
        }
        _ if reads_cilium() && is_of_pod::<TEST>(context) && cilium::translated() != 0 => {
            Found::Cilium
        }
        _ if socket::has_left_by(context) != 0 => Found::Socket,
        Found::Nothing => {
            maps::mean_itself();
            Found::Nothing
        }
        _ => found,
    }
}

#[inline(always)]
fn reads_cilium() -> bool {
    maps::view().is_some_and(|view| view.cilium != 0)
}

/// Whether the packet comes from a pod of this node. Only at pods' interfaces Cilium looks up each
/// packet's entry, and writes it anew for a call of the endpoint itself; an entry that it made for
/// a client outside may be of an earlier call.
#[inline(always)]
fn is_of_pod<const TEST: bool>(context: *mut __sk_buff) -> bool {
    let skb = Skb::judged(context);
    // A test run enters nowhere.
    let entered_at = if TEST {
        skb.ifindex()
    } else {
        skb.came_in_at()
    };
    maps::role(entered_at) == Some(Role::Pod)
}

/// Whether the packet in the scratch map goes to the live endpoint of a redirected flow. conntrack
/// has the denied one.
#[inline(always)]
fn is_redirected_here() -> bool {
    maps::view().is_some_and(|view| view.flows != 0)
        && maps::packet().is_some_and(|packet| of_endpoint(Flow::to(packet)).is_some())
}
