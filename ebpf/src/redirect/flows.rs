//! The maps of redirected flows. The programs write them; the agent removes ended flows.
//!
//! A SYN, which any client can forge, adds a flow to OPENING only, which evicts its coldest flow. A
//! proven handshake moves the flow to FLOWS, of which each client address has a share, and which
//! evicts none.

#![allow(
    clippy::needless_borrows_for_generic_args,
    reason = "what is not borrowed is copied onto the stack first"
)]

use super::entry::{FlowEntry, FlowPair};
use crate::maps;
use crate::maps::{KeyedMap, copy_of_key};
use aya_ebpf::bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST};
use aya_ebpf::btf_maps::{HashMap, LruHashMap};
use aya_ebpf::macros::btf_map;
use epguard_common::{
    ALL_CLIENTS, Addr, Flow, Keyed, Outcome, Reason, Redirected, Return, capacity, has_room,
};

const ON_DEMAND: usize = BPF_F_NO_PREALLOC as usize;

#[btf_map]
static FLOWS: KeyedMap<Flow, Redirected, { capacity::FLOWS }, ON_DEMAND> = HashMap::new();
#[btf_map]
static RETURNS: KeyedMap<Flow, Return, { capacity::FLOWS }, ON_DEMAND> = HashMap::new();
#[btf_map]
static OPENING: LruHashMap<Flow, Keyed<Flow, Redirected>, { capacity::OPENING }> =
    LruHashMap::new();
#[btf_map]
static OPENING_RETURNS: LruHashMap<Flow, Keyed<Flow, Return>, { capacity::OPENING }> =
    LruHashMap::new();
/// The number of flows in FLOWS of each client address, and of all together. The agent corrects
/// miscounts of processors that race.
#[btf_map]
static CLIENTS: HashMap<Addr, u32, { capacity::FLOWS }, ON_DEMAND> = HashMap::new();

/// The entry of a redirected flow.
#[inline(always)]
pub fn redirected(flow: &Flow) -> Option<FlowEntry> {
    established(flow).or_else(|| OPENING.get_ptr_mut(flow).map(FlowEntry))
}

/// The entry of a redirected flow in FLOWS: its handshake is proven.
#[inline(always)]
pub fn established(flow: &Flow) -> Option<FlowEntry> {
    FLOWS.get_ptr_mut(flow).map(FlowEntry)
}

/// Reads where replies of a redirected flow go, by the key in `back`.
#[inline(always)]
pub fn read_return(back: &mut Keyed<Flow, Return>) -> Option<()> {
    let entry = RETURNS
        .get_ptr(back.key)
        .or_else(|| OPENING_RETURNS.get_ptr(back.key))?;
    copy_of_key(entry, back)
}

/// Stores where replies of a flow go.
#[inline(always)]
pub fn record_return(flow: &FlowPair) -> bool {
    if established(&flow.there.key).is_some() {
        return RETURNS.insert(&flow.back.key, &flow.back, 0).is_ok();
    }
    // It belongs to an older flow that has ended.
    let _ = RETURNS.remove(&flow.back.key);
    OPENING_RETURNS
        .insert(&flow.back.key, &flow.back, 0)
        .is_ok()
}

/// Stores where a flow that opens goes.
#[inline(always)]
pub fn open(flow: &FlowPair) -> bool {
    remove_established(&flow.there.key);
    OPENING.insert(&flow.there.key, &flow.there, 0).is_ok()
}

/// Moves a flow whose handshake is proven to FLOWS, if its client's share has room. Otherwise it
/// stays in OPENING, and is counted once. `None` if no entry holds where its replies go.
#[inline(always)]
pub fn establish(entry: FlowEntry, flow: &mut FlowPair) -> Option<()> {
    read_return(&mut flow.back)?;
    let client = &flow.there.key.client;
    let taken = count_of(client);
    let all = count_of(&ALL_CLIENTS);
    if !has_room(taken.unwrap_or(0), all.unwrap_or(0))
        || !is_counted(client, taken)
        || !is_counted(&ALL_CLIENTS, all)
        || RETURNS.insert(&flow.back.key, &flow.back, 0).is_err()
    {
        leave_beyond_share(entry, &flow.there.value);
        return Some(());
    }
    let new = u64::from(BPF_NOEXIST);
    if FLOWS.insert(&flow.there.key, &flow.there, new).is_err() {
        if established(&flow.there.key).is_none() {
            let _ = RETURNS.remove(&flow.back.key);
            leave_beyond_share(entry, &flow.there.value);
        }
        return Some(());
    }
    for client in [client, &ALL_CLIENTS] {
        if let Some(share) = CLIENTS.get_ptr_mut(client) {
            // SAFETY: the entry stays writable for the run of the program.
            unsafe { share.write_volatile(share.read_volatile().wrapping_add(1)) };
        }
    }
    let _ = OPENING.remove(&flow.there.key);
    let _ = OPENING_RETURNS.remove(&flow.back.key);
    Some(())
}

/// Whether CLIENTS has an entry of the client, with this count, or gets one.
#[inline(always)]
fn is_counted(client: &Addr, count: Option<u32>) -> bool {
    count.is_some() || CLIENTS.insert(client, 0, 0).is_ok()
}

#[inline(always)]
fn count_of(client: &Addr) -> Option<u32> {
    // SAFETY: the entry stays readable for the run of the program.
    CLIENTS
        .get_ptr(client)
        .map(|share| unsafe { share.read_volatile() })
}

/// Counts once that a flow stays in OPENING.
#[inline(always)]
fn leave_beyond_share(entry: FlowEntry, redirected: &Redirected) {
    if redirected.flags & Redirected::BEYOND_SHARE == 0 {
        entry.add_flags(Redirected::BEYOND_SHARE);
        maps::count(Reason::Nothing, Outcome::BeyondShare, 0);
    }
}

/// Moves a flow that both sides have closed to OPENING, for its last acknowledgements. `None` if
/// that fails: it stays.
#[inline(always)]
pub fn close(flow: &mut FlowPair) -> Option<()> {
    read_return(&mut flow.back)?;
    OPENING.insert(&flow.there.key, &flow.there, 0).ok()?;
    OPENING_RETURNS.insert(&flow.back.key, &flow.back, 0).ok()?;
    let _ = RETURNS.remove(&flow.back.key);
    remove_established(&flow.there.key);
    Some(())
}

/// Removes a flow. Its entry in `OPENING_RETURNS` stays, without effect.
#[inline(always)]
pub fn forget(flow: &FlowPair) {
    let _ = OPENING.remove(&flow.there.key);
    if remove_established(&flow.there.key) {
        // Otherwise the entry may belong to a later flow.
        let _ = RETURNS.remove(&flow.back.key);
    }
}

/// Removes a flow from FLOWS; false if it was not there.
#[inline(always)]
fn remove_established(flow: &Flow) -> bool {
    let was_there = FLOWS.remove(flow).is_ok();
    if was_there {
        for client in [&flow.client, &ALL_CLIENTS] {
            if let Some(share) = CLIENTS.get_ptr_mut(client) {
                // SAFETY: as in `establish`.
                unsafe { share.write_volatile(share.read_volatile().saturating_sub(1)) };
            }
        }
    }
    was_there
}
