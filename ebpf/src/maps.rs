//! The maps, and typed lookups. Layouts: `epguard_common::abi`. The agent writes the maps, except
//! where a comment names another writer.

mod connections;
mod counts;
mod denied;
mod gate;
mod passed;
mod settings;

pub use connections::{call, connect, connected, connection, disconnect, hide, read_connection};
pub use counts::{count, count_call, count_denied, count_packet};
pub use denied::{Denied, choose, denial};
pub use gate::{Buckets, both_buckets, buckets};
pub use passed::{has_passed, note_passed};
pub use settings::{action_of, active, config, is_logged, limits, mode_of, view};

use crate::found::Found;
use crate::frame::Origin;
use crate::reject::FoundWay;
use aya_ebpf::bindings::BPF_F_NO_PREALLOC;
use aya_ebpf::btf_maps::{Array, HashMap, PerCpuArray, RingBuf};
use aya_ebpf::macros::btf_map;
use aya_ebpf::maps::ring_buf::RingBufEntry;
use core::ptr::addr_of;
use core::sync::atomic::{Ordering, compiler_fence};
use epguard_common::{
    Addr, Bucket, Connection, DenialKey, Entry, Event, Gate, Judged, Keyed, Mac, Meant, Owner,
    Packet, Place, RawRole, Reference, Role, ServiceNumber, Suspect, Terminated, Uid, Vip,
    capacity,
};

/// A map whose values contain their key, see [`Keyed`].
pub type KeyedMap<K, V, const N: usize, const F: usize = 0> = HashMap<K, Keyed<K, V>, N, F>;

#[btf_map]
static SUSPECTS: KeyedMap<Addr, Suspect, { capacity::SUSPECTS }> = HashMap::new();
#[btf_map]
static SERVICES: KeyedMap<Vip, ServiceNumber, { capacity::SERVICES }> = HashMap::new();
/// `lifted_ns` and `rate` are written here.
#[btf_map]
static TERMINATED: KeyedMap<Addr, Terminated, { capacity::TERMINATED }> = HashMap::new();
#[btf_map]
static MACS: HashMap<u32, Mac, { capacity::MACS }> = HashMap::new();
#[btf_map]
static INTERFACES: KeyedMap<u32, RawRole, { capacity::INTERFACES }> = HashMap::new();
/// Written here.
#[btf_map]
static EVENTS: RingBuf<Event, { capacity::EVENTS }> = RingBuf::new();
/// Written here: the node's limit of answers.
#[btf_map]
static ANSWERS: Array<Bucket, 1> = Array::new();
/// Scratch memory: no value outlives one run of a program. Only TC and XDP programs use it: no
/// other program of ours interrupts one of these on its processor.
#[btf_map]
static SCRATCH: PerCpuArray<Scratch, 1> = PerCpuArray::new();
/// The packet that was judged last.
#[btf_map]
static LAST: PerCpuArray<Judged, 1> = PerCpuArray::new();
/// For people and reports, and to check that a live endpoint still has its IP.
#[btf_map]
static OWNERS: HashMap<Addr, Owner, { capacity::OWNERS }, { BPF_F_NO_PREALLOC as usize }> =
    HashMap::new();

/// What a program knows of its packet: the stack is too short for it.
#[repr(C)]
pub struct Scratch {
    pub packet: Packet,
    /// `_nfct` of the skb; 0 if it was not read.
    pub reference: u64,
    /// conntrack's entry of the packet, if it was read.
    pub entry: Entry,
    /// What the client asked for, if a translator recorded it.
    pub meant: Meant,
    /// The endpoint that the packet leaves for.
    pub key: DenialKey,
    /// Where the packet's socket is connected, if that was read.
    pub connection: Connection,
    /// The way of an answer to the packet, if one was looked for.
    pub way: FoundWay,
}

/// Memory of this CPU for the packet.
#[inline(always)]
pub fn scratch() -> Option<*mut Scratch> {
    SCRATCH.get_ptr_mut(0)
}

/// The packet in the scratch map.
#[inline(always)]
pub fn packet<'a>() -> Option<&'a Packet> {
    // SAFETY: this CPU's own element; no other program of ours runs here until this one ends.
    scratch().map(|scratch| unsafe { &(*scratch).packet })
}

/// The endpoint that the packet in the scratch map leaves for, of the Service that its client asked
/// for, and what that was. Of no Service, unless `found` is a translation.
#[inline(always)]
pub fn aim<'a>(found: Found) -> Option<(&'a DenialKey, &'a Meant)> {
    let scratch = scratch()?;
    // SAFETY: as in `packet`; what the client asked for is not written any more.
    let (packet, meant) = unsafe { (&(*scratch).packet, &(*scratch).meant) };
    let Meant {
        vip, endpoint_port, ..
    } = meant;
    let service = match found {
        Found::Conntrack | Found::Cilium | Found::Socket => service(vip),
        _ => ServiceNumber::NONE,
    };
    // SAFETY: as in `packet`; the key is not read yet.
    let key = unsafe { &mut (*scratch).key };
    *key = DenialKey::new(packet.dst, service, *endpoint_port, vip.protocol);
    Some((key, meant))
}

/// What the client of the packet in the scratch map asked for, once a record was found.
#[inline(always)]
pub fn meant<'a>() -> Option<&'a Meant> {
    // SAFETY: as in `packet`.
    scratch().map(|scratch| unsafe { &(*scratch).meant })
}

/// The way of an answer to the packet in the scratch map, once one was looked for.
#[inline(always)]
pub fn way<'a>() -> Option<&'a FoundWay> {
    // SAFETY: as in `packet`.
    scratch().map(|scratch| unsafe { &(*scratch).way })
}

/// The Service's address that the client of the packet in the scratch map asked for, once a record
/// was found.
#[inline(always)]
pub fn vip<'a>() -> Option<&'a Vip> {
    // SAFETY: as in `packet`.
    scratch().map(|scratch| unsafe { &(*scratch).meant.vip })
}

/// Keeps that the sender of the packet in the scratch map asked for the packet's own destination.
#[inline(always)]
pub fn mean_itself() {
    if let Some(packet) = packet() {
        mean(Vip::of(packet));
    }
}

/// Keeps the Service's address that the sender of the packet in the scratch map asked for.
#[inline(always)]
pub fn mean(vip: Vip) {
    if let Some(scratch) = scratch() {
        // SAFETY: as in `packet`; what the client asked for is not read yet.
        let (packet, meant) = unsafe { (&(*scratch).packet, &mut (*scratch).meant) };
        *meant = Meant {
            vip,
            client: packet.src,
            client_port: packet.src_port,
            endpoint_port: packet.dst_port,
        };
    }
}

/// Whether the packet is a copy of the one that was judged last, which had a connection.
#[inline(always)]
pub fn is_copy(frame: &impl Origin) -> bool {
    let (Some(last), Some(scratch)) = (LAST.get_ptr_mut(0), scratch()) else {
        return false;
    };
    // SAFETY: this CPU's own elements; every bit pattern is a Judged.
    unsafe {
        // Without a connection it is none, and needs no clock.
        if Reference((*scratch).reference).address().is_none() {
            return false;
        }
        let packet = Judged {
            reference: (*scratch).reference,
            at_ns: frame.now_ns(),
            length: frame.length(),
            ifindex: frame.ifindex(),
        };
        let is_copy = packet.is_copy_of(&last.read());
        if !is_copy {
            last.write(packet);
        }
        is_copy
    }
}

/// The node's limit of answers; `None` only if the map is missing.
#[inline(always)]
pub fn answers() -> Option<*mut Bucket> {
    ANSWERS.get_ptr_mut(0)
}

/// What `read` takes out of the value, if the entry is still the key's then: see [`Keyed`]. Keys
/// are whole words.
#[inline(always)]
pub fn of_key<K, V, T>(
    entry: *const Keyed<K, V>,
    key: &K,
    read: impl FnOnce(*const V) -> T,
) -> Option<T> {
    // SAFETY: a field of the entry, not read here.
    let value = read(unsafe { &raw const (*entry).value });
    // The key is read after the value.
    compiler_fence(Ordering::SeqCst);
    let (found, wanted) = (entry.cast::<u32>(), core::ptr::from_ref(key).cast::<u32>());
    let mut difference = 0;
    for word in 0..size_of::<K>() / 4 {
        // SAFETY: words of two keys, of which the first stays readable for the run of the program.
        // One branch for all of it spares the verifier paths.
        difference |= unsafe { found.add(word).read_volatile() ^ wanted.add(word).read() };
    }
    (difference == 0).then_some(value)
}

/// Copies the value to behind the key that was looked up; `None` as in [`of_key`]. Every bit
/// pattern must be a value.
#[inline(always)]
pub fn copy_of_key<K, V>(entry: *const Keyed<K, V>, into: &mut Keyed<K, V>) -> Option<()> {
    // SAFETY: as in `of_key`; the two do not overlap.
    of_key(entry, &into.key, |value| unsafe {
        core::ptr::copy_nonoverlapping(value, &raw mut into.value, 1);
    })
}

/// The suspect at this address, and its flags.
#[inline(always)]
pub fn suspect(addr: &Addr) -> Option<(*mut Suspect, u32)> {
    let entry = SUSPECTS.get_ptr_mut(addr)?;
    // SAFETY: as in `of_key`.
    let flags = of_key(entry, addr, |suspect| unsafe {
        addr_of!((*suspect).flags).read_volatile()
    })?;
    // SAFETY: a field of the entry, not read here.
    Some((unsafe { &raw mut (*entry).value }, flags))
}

/// What TERMINATED held about an address when it was looked up.
#[derive(Clone, Copy)]
pub struct OrphanIp {
    /// The value.
    pub entry: *mut Terminated,
    /// Whether a packet from the address was seen.
    pub lifted: bool,
    /// [`Terminated::mode`].
    pub mode: u32,
    /// [`Terminated::action`].
    pub action: u32,
}

/// The entry of an address whose last pod is dead and that is unused. GATE spares most lookups:
/// nearly all sources have none.
#[inline(always)]
pub fn terminated(addr: &Addr) -> Option<OrphanIp> {
    if buckets(false).is_some_and(|buckets| buckets.flags_at(addr.words()) & Gate::TERMINATED == 0)
    {
        return None;
    }
    let entry = TERMINATED.get_ptr_mut(addr)?;
    // SAFETY: as in `of_key`.
    let (lifted_ns, mode, action) = of_key(entry, addr, |terminated| unsafe {
        (
            addr_of!((*terminated).lifted_ns).read_volatile(),
            addr_of!((*terminated).mode).read_volatile(),
            addr_of!((*terminated).action).read_volatile(),
        )
    })?;
    Some(OrphanIp {
        // SAFETY: a field of the entry, not read here.
        entry: unsafe { &raw mut (*entry).value },
        lifted: lifted_ns != 0,
        mode,
        action,
    })
}

/// The role of an interface; `None` if INTERFACES has no entry, or none that is a role.
#[inline(always)]
pub fn role(ifindex: u32) -> Option<Role> {
    place(ifindex).role.role()
}

/// An interface with what INTERFACES has of it: nothing, if there is no entry.
#[inline(always)]
pub fn place(ifindex: u32) -> Place {
    let read = |entry: *const Keyed<u32, RawRole>| {
        // SAFETY: as in `of_key`.
        of_key(entry, &ifindex, |role| unsafe { role.read_volatile() })
    };
    Place {
        ifindex,
        role: INTERFACES
            .get_ptr(ifindex)
            .and_then(read)
            .unwrap_or(RawRole { number: 0 }),
    }
}

/// Whether programs of ours judge packets at an interface.
#[inline(always)]
pub fn is_hooked(ifindex: u32) -> bool {
    INTERFACES.get_ptr(ifindex).is_some()
}

/// The link-layer address of an interface, where XDP may judge.
#[inline(always)]
pub fn mac(ifindex: u32) -> Option<Mac> {
    // SAFETY: every bit pattern is a Mac.
    MACS.get_ptr(ifindex).map(|mac| unsafe { *mac })
}

/// The number of the Service with denials at this address and port; none if there is none.
#[inline(always)]
pub fn service(vip: &Vip) -> ServiceNumber {
    let number = |entry: *const Keyed<Vip, ServiceNumber>| {
        // SAFETY: as in `of_key`.
        of_key(entry, vip, |number| unsafe { number.read_volatile() })
    };
    SERVICES
        .get_ptr(vip)
        .and_then(number)
        .unwrap_or(ServiceNumber::NONE)
}

/// The pod that publishes the address.
#[inline(always)]
pub fn owner(addr: &Addr) -> Option<Uid> {
    // SAFETY: the entry stays readable for the run of the program; UIDs are plain octets.
    OWNERS
        .get_ptr(addr)
        .map(|owner| unsafe { addr_of!((*owner).uid).read() })
}

/// Room for an event to the agent, in the ring itself, as the stack is short. `None`: the ring is
/// full.
#[inline(always)]
pub fn event() -> Option<RingBufEntry<Event>> {
    EVENTS.reserve(0)
}
