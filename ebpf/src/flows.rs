//! The maps of redirected flows. The programs write all of them but LIVE; the agent removes ended flows.
//!
//! A SYN, which any client can forge, adds a flow to OPENING only, which evicts its coldest flow. A proven handshake moves the
//! flow to FLOWS, of which each client address has a share, and which evicts none.

#![allow(
    clippy::needless_borrows_for_generic_args,
    reason = "what is not borrowed is copied onto the stack first"
)]

use crate::flow_entry::{Entry, FlowPair};
use crate::maps::{KeyedMap, copy_of_key};
use crate::{clock, maps};
use aya_ebpf::bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST};
use aya_ebpf::btf_maps::{HashMap, LruHashMap};
use aya_ebpf::macros::btf_map;
use epguard_common::{
    ALL_CLIENTS, Addr, Direct, Flow, Keyed, Outcome, Reason, Redirected, Return, Vip, capacity, has_room,
};

const ON_DEMAND: usize = BPF_F_NO_PREALLOC as usize;

#[btf_map]
static FLOWS: KeyedMap<Flow, Redirected, { capacity::FLOWS }, ON_DEMAND> = HashMap::new();
#[btf_map]
static RETURNS: KeyedMap<Flow, Return, { capacity::FLOWS }, ON_DEMAND> = HashMap::new();
#[btf_map]
static OPENING: LruHashMap<Flow, Keyed<Flow, Redirected>, { capacity::OPENING }> = LruHashMap::new();
#[btf_map]
static OPENING_RETURNS: LruHashMap<Flow, Keyed<Flow, Return>, { capacity::OPENING }> = LruHashMap::new();
/// The number of flows in FLOWS of each client address, and of all together. The agent corrects miscounts of processors that
/// race.
#[btf_map]
static CLIENTS: HashMap<Addr, u32, { capacity::FLOWS }, ON_DEMAND> = HashMap::new();
/// Written by the agent.
#[btf_map]
static LIVE: HashMap<Vip, u32, { capacity::LIVE }, ON_DEMAND> = HashMap::new();
#[btf_map]
static DIRECT: LruHashMap<Flow, Direct, { capacity::DIRECT }> = LruHashMap::new();

/// The entry of a redirected flow.
#[inline(always)]
pub fn redirected(flow: &Flow) -> Option<Entry> {
    established(flow).or_else(|| OPENING.get_ptr_mut(flow).map(Entry))
}

/// The entry of a redirected flow in FLOWS: its handshake is proven.
#[inline(always)]
pub fn established(flow: &Flow) -> Option<Entry> {
    FLOWS.get_ptr_mut(flow).map(Entry)
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
    OPENING_RETURNS.insert(&flow.back.key, &flow.back, 0).is_ok()
}

/// Stores where a flow that opens goes.
#[inline(always)]
pub fn open(flow: &FlowPair) -> bool {
    leave(&flow.there.key);
    OPENING.insert(&flow.there.key, &flow.there, 0).is_ok()
}

/// Moves a flow whose handshake is proven to FLOWS, if its client's share has room. Otherwise it stays in OPENING, and is
/// counted once. `None` if no entry holds where its replies go.
#[inline(always)]
pub fn establish(entry: Entry, flow: &mut FlowPair) -> Option<()> {
    read_return(&mut flow.back)?;
    let client = &flow.there.key.client;
    let (taken, all) = (count_of(client), count_of(&ALL_CLIENTS));
    let room = has_room(taken.unwrap_or(0), all.unwrap_or(0));
    let counted = |count: Option<u32>, client| count.is_some() || CLIENTS.insert(client, 0, 0).is_ok();
    if !room
        || !counted(taken, client)
        || !counted(all, &ALL_CLIENTS)
        || RETURNS.insert(&flow.back.key, &flow.back, 0).is_err()
    {
        beyond(entry, &flow.there.value);
        return Some(());
    }
    let new = u64::from(BPF_NOEXIST);
    if FLOWS.insert(&flow.there.key, &flow.there, new).is_err() {
        if established(&flow.there.key).is_none() {
            let _ = RETURNS.remove(&flow.back.key);
            beyond(entry, &flow.there.value);
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

#[inline(always)]
fn count_of(client: &Addr) -> Option<u32> {
    // SAFETY: the entry stays readable for the run of the program.
    CLIENTS
        .get_ptr(client)
        .map(|share| unsafe { share.read_volatile() })
}

#[inline(always)]
fn beyond(entry: Entry, redirected: &Redirected) {
    if redirected.flags & Redirected::BEYOND_SHARE == 0 {
        entry.add_flags(Redirected::BEYOND_SHARE);
        maps::count(Reason::Nothing, Outcome::BeyondShare, 0);
    }
}

/// Moves a flow that both sides have closed to OPENING, for its last acknowledgements. `None` if that fails: it stays.
#[inline(always)]
pub fn close(flow: &mut FlowPair) -> Option<()> {
    read_return(&mut flow.back)?;
    OPENING.insert(&flow.there.key, &flow.there, 0).ok()?;
    OPENING_RETURNS.insert(&flow.back.key, &flow.back, 0).ok()?;
    let _ = RETURNS.remove(&flow.back.key);
    leave(&flow.there.key);
    Some(())
}

/// Removes a flow. Its entry in `OPENING_RETURNS` stays, without effect.
#[inline(always)]
pub fn forget(flow: &FlowPair) {
    let _ = OPENING.remove(&flow.there.key);
    if leave(&flow.there.key) {
        // Otherwise the entry may belong to a later flow.
        let _ = RETURNS.remove(&flow.back.key);
    }
}

/// Removes a flow from FLOWS; false if it was not there.
#[inline(always)]
fn leave(flow: &Flow) -> bool {
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

/// Whether flows are redirected to this endpoint.
#[inline(always)]
pub fn is_live(addr: Addr, port: u16, protocol: u8) -> bool {
    let reserved = 0;
    let endpoint = Vip {
        addr,
        port,
        protocol,
        reserved,
    };
    LIVE.get_ptr(endpoint).is_some()
}

/// Notes a packet of a client's own connection to an endpoint in LIVE. A SYN adds no entry: the endpoint may refuse it. Only
/// a packet that `is_real` adds an entry, or changes whether the connection is open.
#[inline(always)]
pub fn note_direct(flow: &Flow, opens: bool, closing: bool, is_real: impl FnOnce() -> bool) {
    let now_ns = clock::now_ns();
    if let Some(direct) = DIRECT.get_ptr_mut(flow) {
        // SAFETY: as in `Entry::touch`; processors that race write nearly the same.
        unsafe {
            (&raw mut (*direct).used_ns).write_volatile(now_ns);
            if (opens || closing) && is_real() {
                (&raw mut (*direct).closing).write_volatile(closing.into());
            }
        }
    } else if !opens && is_real() {
        let direct = Direct {
            used_ns: now_ns,
            closing: closing.into(),
            reserved: 0,
        };
        // A full LRU map evicts the coldest one.
        let _ = DIRECT.insert(flow, direct, 0);
    }
}

/// Notes that the endpoint has ended such a connection.
#[inline(always)]
pub fn end_direct(flow: &Flow, is_real: impl FnOnce() -> bool) {
    if let Some(direct) = DIRECT.get_ptr_mut(flow)
        && is_real()
    {
        // SAFETY: as in `note_direct`.
        unsafe { (&raw mut (*direct).closing).write_volatile(1) };
    }
}

/// Whether the client has its own connection with the same addresses to the live endpoint.
#[inline(always)]
pub fn is_direct(behind: &Flow) -> bool {
    // SAFETY: the entry stays readable for the run of the program; every bit pattern is a Direct. Of another connection that
    // has just got the place, it keeps one flow from being redirected.
    let direct = DIRECT.get_ptr(behind).map(|direct| unsafe { direct.read() });
    direct.is_some_and(|direct| !direct.is_over(behind.protocol, clock::now_ns()))
}
