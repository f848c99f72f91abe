//! The two entries of a redirected flow, found by the addresses on one side or the other.

use super::entry::{FlowEntry, FlowPair};
use super::flows;
use crate::maps;
use crate::work::Work;
use epguard_common::{Flow, Redirected};

/// The flow of the packet, of its client, if it is redirected to where the client asked for now,
/// and its addresses are not taken.
#[inline(always)]
pub fn of_client(work: &Work) -> Option<(FlowEntry, &mut FlowPair)> {
    let flow = work.flow.get_mut();
    flow.there.key = Flow::to(work.packet.get());
    let entry = flows::redirected(&flow.there.key)?;
    entry.read(&mut flow.there)?;
    let redirected = &flow.there.value;
    if redirected.vip != work.meant.get().vip || redirected.flags & Redirected::TAKEN != 0 {
        return None;
    }
    flow.back.key = flow.there.key.with_live_endpoint(&redirected.backend);
    Some((entry, flow))
}

/// The redirected flow that has these addresses at the live endpoint. RETURNS may hold an earlier
/// flow of the same client and port: FLOWS has the endpoint that the flow goes to now.
#[inline(always)]
pub fn of_endpoint(behind: Flow, work: &Work) -> Option<(FlowEntry, &mut FlowPair)> {
    let flow = work.other_flow.get_mut();
    flow.back.key = behind;
    flows::read_return(&mut flow.back)?;
    flow.there.key = flow.back.key.with_denied_endpoint(&flow.back.value);
    let entry = flows::redirected(&flow.there.key)?;
    entry.read(&mut flow.there)?;
    let backend = &flow.there.value.backend;
    let behind = &flow.back.key;
    if backend.addr != behind.endpoint || backend.port != behind.endpoint_port {
        return None;
    }
    Some((entry, flow))
}

/// Whether the packet goes to the live endpoint of a redirected flow. conntrack has the denied one.
#[inline(always)]
pub fn is_redirected_here(work: &Work) -> bool {
    maps::view().is_some_and(|view| view.flows != 0)
        && of_endpoint(Flow::to(work.packet.get()), work).is_some()
}
