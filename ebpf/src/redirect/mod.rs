//! Redirected flows: packets go to the live endpoint behind conntrack, and replies go back before
//! it.
//!
//! A packet that leaves towards the denied endpoint gets the live one as its destination and leaves
//! towards that. A reply gets the denied one as its source and enters again, where the node routes
//! the denied endpoint: so conntrack knows it, and a strict `rp_filter` lets it through. No flow is
//! redirected, and none goes on, where the program of another project is at that interface: it
//! would take replies for packets of the IP's holder.
//!
//! The way of a client's packet, at the egress hook:
//!
//! 1. [`destination`] finds the live endpoint of the flow that the packet belongs to. For a flow
//!    that opens, the look-up of the verdict has chosen one in BACKENDS (`maps/backends.rs`).
//!    [`destination`] refuses what the node cannot send there ([`NextHop`]).
//! 2. [`forward`] enters the flow, moves it on with the state of its connection, and sends the
//!    packet.
//!
//! The way of an endpoint's reply, at the ingress hook: [`replies`] finds its flow, and sends it
//! back. Before either, [`give_way`] ends flows whose client has a connection of its own with the
//! same addresses.
//!
//! Where flows are kept: [`flows`] has the maps, [`entry`] one entry of them, and [`pair`] finds
//! the two entries of a flow, by the addresses on one side or the other.

mod destination;
mod entry;
mod flows;
mod forward;
mod give_way;
mod pair;
mod replies;

pub use destination::{
    Destination, NextHop, admit, find_destination, forget_closed, is_live, next_hop,
};
pub use entry::FlowPair;
pub use forward::follow;
pub use give_way::give_way_to_own_connection;
pub use pair::is_redirected_here;
pub use replies::{is_reply, send_reply};

use crate::frame::Origin as _;
use crate::maps;
use crate::skb::Skb;
use aya_ebpf::bindings::TC_ACT_SHOT;
use epguard_common::{Outcome, Reason};

/// Drops and counts a packet that could not be sent.
#[inline(always)]
fn drop_failed(skb: &Skb) -> i32 {
    maps::count(Reason::Nothing, Outcome::RedirectFailed, skb.length());
    TC_ACT_SHOT
}
