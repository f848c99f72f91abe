//! The maps of redirected flows. The programs write all of them but LIVE; the agent takes out what is over.
//!
//! A SYN, which anybody can send from any address, only reaches OPENING: there the coldest flow is forgotten. A proven
//! handshake brings the flow to FLOWS, of which each client address has a share, and from which nothing is evicted.

#![allow(
    clippy::needless_borrows_for_generic_args,
    reason = "what is not borrowed is copied onto the stack first"
)]

use crate::maps::{KeyedMap, copy_of_key};
use crate::redirected::{Entry, Redirected};
use crate::{clock, maps};
use aya_ebpf::bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST};
use aya_ebpf::btf_maps::{HashMap, LruHashMap};
use aya_ebpf::macros::btf_map;
use epguard_common::{
    ALL_CLIENTS, Addr, Direct, Flow, Keyed, Outcome, Reason, Return, Steered, Vip, capacity, has_room,
};

const ON_DEMAND: usize = BPF_F_NO_PREALLOC as usize;

#[btf_map]
static FLOWS: KeyedMap<Flow, Steered, { capacity::FLOWS }, ON_DEMAND> = HashMap::new();
#[btf_map]
static RETURNS: KeyedMap<Flow, Return, { capacity::FLOWS }, ON_DEMAND> = HashMap::new();
#[btf_map]
static OPENING: LruHashMap<Flow, Keyed<Flow, Steered>, { capacity::OPENING }> = LruHashMap::new();
#[btf_map]
static OPENING_RETURNS: LruHashMap<Flow, Keyed<Flow, Return>, { capacity::OPENING }> = LruHashMap::new();
/// How many flows of FLOWS each client address has, and all together. The agent puts right what processors that race
/// miscount.
#[btf_map]
static CLIENTS: HashMap<Addr, u32, { capacity::FLOWS }, ON_DEMAND> = HashMap::new();
/// Written by the agent.
#[btf_map]
static LIVE: HashMap<Vip, u32, { capacity::LIVE }, ON_DEMAND> = HashMap::new();
#[btf_map]
static DIRECT: LruHashMap<Flow, Direct, { capacity::DIRECT }> = LruHashMap::new();

/// Where a flow was steered.
#[inline(always)]
pub fn steered(flow: &Flow) -> Option<Entry> {
    established(flow).or_else(|| OPENING.get_ptr_mut(flow).map(Entry))
}

/// The same if its handshake is proven.
#[inline(always)]
pub fn established(flow: &Flow) -> Option<Entry> {
    FLOWS.get_ptr_mut(flow).map(Entry)
}

/// How answers of a redirected flow go back, by the key.
#[inline(always)]
pub fn read_return(back: &mut Keyed<Flow, Return>) -> Option<()> {
    let entry = RETURNS
        .get_ptr(back.key)
        .or_else(|| OPENING_RETURNS.get_ptr(back.key))?;
    copy_of_key(entry, back)
}

/// Writes down how answers of a flow come back.
#[inline(always)]
pub fn remember_return(flow: &Redirected) -> bool {
    if established(&flow.there.key).is_some() {
        return RETURNS.insert(&flow.back.key, &flow.back, 0).is_ok();
    }
    // Of an older flow that is over.
    let _ = RETURNS.remove(&flow.back.key);
    OPENING_RETURNS.insert(&flow.back.key, &flow.back, 0).is_ok()
}

/// Writes down where a flow that opens goes.
#[inline(always)]
pub fn open(flow: &Redirected) -> bool {
    leave(&flow.there.key);
    OPENING.insert(&flow.there.key, &flow.there, 0).is_ok()
}

/// Moves a flow whose handshake is proven to FLOWS, if its client's share has room. Otherwise it stays where it is, and is
/// counted once. `None` if its answers have no way back.
#[inline(always)]
pub fn establish(entry: Entry, flow: &mut Redirected) -> Option<()> {
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
fn beyond(entry: Entry, steered: &Steered) {
    if steered.flags & Steered::BEYOND_SHARE == 0 {
        entry.add_flags(Steered::BEYOND_SHARE);
        maps::count(Reason::Nothing, Outcome::BeyondShare, 0);
    }
}

/// Moves a flow that both sides have closed to OPENING: only its last acknowledgements are still to come. `None` if that
/// fails, and it stays.
#[inline(always)]
pub fn close(flow: &mut Redirected) -> Option<()> {
    read_return(&mut flow.back)?;
    OPENING.insert(&flow.there.key, &flow.there, 0).ok()?;
    OPENING_RETURNS.insert(&flow.back.key, &flow.back, 0).ok()?;
    let _ = RETURNS.remove(&flow.back.key);
    leave(&flow.there.key);
    Some(())
}

/// Forgets where a flow goes. How its answers came back stays in `OPENING_RETURNS`, and is believed no more.
#[inline(always)]
pub fn forget(flow: &Redirected) {
    let _ = OPENING.remove(&flow.there.key);
    if leave(&flow.there.key) {
        // Otherwise it may be a later flow's.
        let _ = RETURNS.remove(&flow.back.key);
    }
}

/// Takes a flow out of FLOWS; false if it was not there.
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

/// Notes a packet of a connection that a client has to an endpoint in LIVE. A SYN begins none: it may be refused. Only one
/// that `is_real` makes a note, or changes whether it is open.
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
        // A full LRU map forgets the coldest one.
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

/// Whether a client has a connection of its own that looks the same to the live endpoint.
#[inline(always)]
pub fn is_direct(behind: &Flow) -> bool {
    // SAFETY: the entry stays readable for the run of the program; every bit pattern is a Direct. Of another connection that
    // has just got the place, it keeps one flow from being redirected.
    let direct = DIRECT.get_ptr(behind).map(|direct| unsafe { direct.read() });
    direct.is_some_and(|direct| !direct.is_over(behind.protocol, clock::now_ns()))
}
