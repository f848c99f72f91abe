//! A redirected flow in per-CPU memory: the stack is too short for it.

use crate::flow_entry::{Entry, FlowPair};
use crate::flows;
use aya_ebpf::btf_maps::PerCpuArray;
use aya_ebpf::macros::btf_map;
use epguard_common::{Backend, Flow, Packet, Redirected, Vip};

/// Scratch memory: no value outlives one run of a program.
#[btf_map]
static REDIRECTED: PerCpuArray<FlowPair, 2> = PerCpuArray::new();

/// Places for the flow of a packet, and for another flow with the same addresses at the live
/// endpoint.
const OWN: u32 = 0;
const OTHER: u32 = 1;

/// The flow of a packet of its client, which asked for `vip`, if it is redirected, and its
/// addresses are not taken.
#[inline(always)]
pub fn of_client(packet: &Packet, vip: &Vip) -> Option<(Entry, &'static mut FlowPair)> {
    let flow = place(OWN)?;
    flow.there.key = Flow::to(packet);
    let entry = flows::redirected(&flow.there.key)?;
    entry.read(&mut flow.there)?;
    let Redirected {
        vip: own, flags, ..
    } = &flow.there.value;
    (*own == *vip && flags & Redirected::TAKEN == 0).then_some(())?;
    flow.back.key = flow.there.key.at(&flow.there.value.backend);
    Some((entry, flow))
}

/// The flow that a packet of its client opens: only its key is filled in.
#[inline(always)]
pub fn opening(packet: &Packet) -> Option<&'static mut FlowPair> {
    let flow = place(OWN)?;
    flow.there.key = Flow::to(packet);
    Some(flow)
}

/// The redirected flow that has these addresses at the live endpoint. RETURNS may hold an earlier
/// flow of the same client and port: FLOWS has the endpoint that the flow goes to now.
#[inline(always)]
pub fn of_endpoint(behind: Flow) -> Option<(Entry, &'static mut FlowPair)> {
    let flow = place(OTHER)?;
    flow.back.key = behind;
    flows::read_return(&mut flow.back)?;
    flow.there.key = flow.back.key.before(&flow.back.value);
    let entry = flows::redirected(&flow.there.key)?;
    entry.read(&mut flow.there)?;
    let (backend, behind) = (&flow.there.value.backend, &flow.back.key);
    (backend.addr == behind.endpoint && backend.port == behind.endpoint_port)
        .then_some((entry, flow))
}

#[inline(always)]
fn place(number: u32) -> Option<&'static mut FlowPair> {
    // SAFETY: this processor's own element, and a program of ours is not interrupted by another one
    // on it. Every bit pattern is a FlowPair. Each place is taken once in a run of one global
    // function.
    REDIRECTED
        .get_ptr_mut(number)
        .map(|flow| unsafe { &mut *flow })
}

/// Where the packet goes, as the egress hook has decided.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Destination {
    /// The live endpoint.
    pub backend: Backend,
    /// The interface towards it; 0: not looked up yet, and neither is the way of the replies.
    pub through: u32,
}

/// From the choice to the functions that carry it out, in one run of a program.
#[btf_map]
static DESTINATION: PerCpuArray<Destination, 1> = PerCpuArray::new();

/// Where the packet goes, once the choice has found it in this run of the program: the stack is too
/// short for it.
#[inline(always)]
pub fn destination() -> Option<&'static mut Destination> {
    // SAFETY: this processor's own element, and no other program of ours interrupts this one on it.
    // Every bit pattern is a Destination. Each reference is used up before the next one is made.
    DESTINATION
        .get_ptr_mut(0)
        .map(|destination| unsafe { &mut *destination })
}
