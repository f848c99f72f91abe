//! The maps, and typed lookups. Layouts: `epguard_common::abi`. The agent writes the maps, except
//! where a comment names another writer.

mod backends;
mod connections;
mod counts;
mod denied;
mod gate;
mod passed;
mod settings;

pub use backends::choose_backend;
pub use connections::{call, connect, connected, connection, disconnect, hide, read_connection};
pub use counts::{count, count_call, count_denied, count_packet};
pub use denied::{Denied, denial};
pub use gate::{Buckets, both_buckets, buckets};
pub use passed::{has_passed, record_passed};
pub use settings::{action_of, active, config, is_logged, limits, mode_of, view};

use aya_ebpf::bindings::BPF_F_NO_PREALLOC;
use aya_ebpf::btf_maps::{Array, HashMap, RingBuf};
use aya_ebpf::macros::btf_map;
use aya_ebpf::maps::ring_buf::RingBufEntry;
use core::ptr::addr_of;
use core::sync::atomic::{Ordering, compiler_fence};
use epguard_common::{
    Addr, Bucket, Event, Gate, Keyed, Mac, Owner, Place, RawRole, Role, ServiceNumber, Suspect,
    Terminated, Uid, Vip, capacity,
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
/// For people and reports, and to check that a live endpoint still has its IP.
#[btf_map]
static OWNERS: HashMap<Addr, Owner, { capacity::OWNERS }, { BPF_F_NO_PREALLOC as usize }> =
    HashMap::new();

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
    let found = entry.cast::<u32>();
    let wanted = core::ptr::from_ref(key).cast::<u32>();
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
    place_of(ifindex).role.role()
}

/// An interface with what INTERFACES has of it: nothing, if there is no entry.
#[inline(always)]
pub fn place_of(ifindex: u32) -> Place {
    let role = INTERFACES.get_ptr(ifindex).and_then(|entry| {
        // SAFETY: as in `of_key`.
        of_key(entry, &ifindex, |role| unsafe { role.read_volatile() })
    });
    Place {
        ifindex,
        role: role.unwrap_or(RawRole { number: 0 }),
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
    let Some(entry) = SERVICES.get_ptr(vip) else {
        return ServiceNumber::NONE;
    };
    // SAFETY: as in `of_key`.
    of_key(entry, vip, |number| unsafe { number.read_volatile() }).unwrap_or(ServiceNumber::NONE)
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
