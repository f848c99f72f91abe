//! What the translators recorded about a packet that leaves: netfilter's conntrack, else Cilium's,
//! else the packet's socket.

use crate::found::Found;
use crate::frame::Origin as _;
use crate::redirect::is_redirected_here;
use crate::skb::Skb;
use crate::work::Work;
use crate::{cilium, conntrack, maps, socket};
use aya_ebpf::bindings::__sk_buff;
use epguard_common::Role;

/// What is recorded about the packet. Sets what the client asked for, if that is recorded. `TEST`:
/// conntrack's entry is that of `TEST_ENTRY`.
#[inline(always)]
pub fn find<const TEST: bool>(context: *mut __sk_buff, work: &Work) -> Found {
    let found = Found::from_number(if TEST {
        conntrack::read_test_entry()
    } else {
        conntrack::read_entry(context)
    });
    match found {
        Found::Conntrack => found,
        Found::Unreadable if is_redirected_here(work) => {
            work.mean_destination();
            Found::Direct
        }
        _ if reads_cilium() && is_of_pod::<TEST>(context, work) && cilium::translated() != 0 => {
            Found::Cilium
        }
        _ if socket::has_left_by(context) != 0 => Found::Socket,
        Found::Nothing => {
            work.mean_destination();
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
fn is_of_pod<const TEST: bool>(context: *mut __sk_buff, work: &Work) -> bool {
    let skb = Skb::new(context, work);
    // A test run enters nowhere.
    let entered_at = if TEST {
        skb.ifindex()
    } else {
        skb.came_in_at()
    };
    maps::role(entered_at) == Some(Role::Pod)
}
