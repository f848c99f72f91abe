//! The neighbour's policy: everything is allowed except the flows in FORBIDDEN.

use crate::flow::Flow;
use crate::maps::{self, Event};

/// The verdict on a packet, model `ipv4_policy()` of `bpf_lxc.c`: packets of the proxy skip the
/// policy. None for packets without ports.
#[inline(always)]
pub fn judge(flow: Option<&Flow>, skip: bool) -> Option<Event> {
    let flow = flow?;
    Some(if skip {
        Event::Skipped
    } else if maps::is_forbidden(flow) {
        Event::Forbidden
    } else {
        Event::Allowed
    })
}
