//! Lookups in Cilium's own maps: which Service it translated. The agent hands the maps in; none is
//! written here.

use crate::maps;
use crate::work::Work;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::{__sk_buff, BPF_F_NO_COMMON_LRU, BPF_F_NO_PREALLOC};
use aya_ebpf::btf_maps::{ArrayOfMaps, HashMap, LruHashMap};
use aya_ebpf::helpers::generated::bpf_get_socket_cookie;
use aya_ebpf::macros::btf_map;
use aya_ebpf::programs::TcContext;
use epguard_common::cilium_layout::{
    Connection4, Connection6, ConnectionEntry, Service4, Service6, Socket4, Socket6,
    SocketService4, SocketService6,
};
use epguard_common::protocol::TCP;
use epguard_common::{Packet, Vip};

const ON_DEMAND: usize = BPF_F_NO_PREALLOC as usize;
const PER_CPU: usize = BPF_F_NO_COMMON_LRU as usize;

/// Maps of each kind: the one that Cilium has pinned, and the one before it, which endpoints use
/// for a while after a restart.
const GENERATIONS: u32 = 2;

// The kernel takes only inner maps of the flags that the outer map was made for. Cilium has an
// option for one flag of each type, and with it changes maps while they are in use: each generation
// is in one of two outer maps.

/// `cilium_ct4_global`, then `cilium_ct_any4_global`; each in two generations.
#[btf_map]
static CILIUM_CT4: ArrayOfMaps<LruHashMap<Connection4, ConnectionEntry, 1>, 4> = ArrayOfMaps::new();
#[btf_map]
static CILIUM_CT4_CPU: ArrayOfMaps<LruHashMap<Connection4, ConnectionEntry, 1, PER_CPU>, 4> =
    ArrayOfMaps::new();
#[btf_map]
static CILIUM_CT6: ArrayOfMaps<LruHashMap<Connection6, ConnectionEntry, 1>, 4> = ArrayOfMaps::new();
#[btf_map]
static CILIUM_CT6_CPU: ArrayOfMaps<LruHashMap<Connection6, ConnectionEntry, 1, PER_CPU>, 4> =
    ArrayOfMaps::new();
#[btf_map]
static CILIUM_NAT4: ArrayOfMaps<HashMap<u16, Service4, 1, ON_DEMAND>, 2> = ArrayOfMaps::new();
#[btf_map]
static CILIUM_NAT4_PRE: ArrayOfMaps<HashMap<u16, Service4, 1>, 2> = ArrayOfMaps::new();
#[btf_map]
static CILIUM_NAT6: ArrayOfMaps<HashMap<u16, Service6, 1, ON_DEMAND>, 2> = ArrayOfMaps::new();
#[btf_map]
static CILIUM_NAT6_PRE: ArrayOfMaps<HashMap<u16, Service6, 1>, 2> = ArrayOfMaps::new();
#[btf_map]
static CILIUM_SK4: ArrayOfMaps<LruHashMap<Socket4, SocketService4, 1>, 2> = ArrayOfMaps::new();
#[btf_map]
static CILIUM_SK4_CPU: ArrayOfMaps<LruHashMap<Socket4, SocketService4, 1, PER_CPU>, 2> =
    ArrayOfMaps::new();
#[btf_map]
static CILIUM_SK6: ArrayOfMaps<LruHashMap<Socket6, SocketService6, 1>, 2> = ArrayOfMaps::new();
#[btf_map]
static CILIUM_SK6_CPU: ArrayOfMaps<LruHashMap<Socket6, SocketService6, 1, PER_CPU>, 2> =
    ArrayOfMaps::new();

/// Whether Cilium has translated the packet from a Service's address, and sets that as what the
/// client asked for; 0 if not. Global, as [`read_entry`](crate::conntrack::read_entry).
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn translated() -> u32 {
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    let packet = work.packet.get();
    if !packet.transport.has_ports() {
        return 0;
    }
    let place = if packet.protocol == TCP {
        0
    } else {
        GENERATIONS
    };
    // An endpoint changes to the pinned map for good, and writes an entry for the first packet:
    // what the map before has of the connection is then out of date.
    let reversal = reversal(packet, place).or_else(|| reversal(packet, place + 1));
    let Some(reversal) = reversal else {
        return 0;
    };
    if reversal == 0 {
        return 0;
    }
    if packet.dst.is_v4() {
        let Some(service) = only(service_v4(0, reversal), service_v4(1, reversal)) else {
            return 0;
        };
        work.mean(service.vip(packet.protocol));
    } else {
        let Some(service) = only(service_v6(0, reversal), service_v6(1, reversal)) else {
            return 0;
        };
        work.mean(service.vip(packet.protocol));
    }
    1
}

/// The Service of a reversal in the maps of IPv4 of one generation.
#[inline(always)]
fn service_v4(generation: u32, reversal: u16) -> Option<*mut Service4> {
    CILIUM_NAT4
        .get_value_ptr_mut(generation, &reversal)
        .or_else(|| CILIUM_NAT4_PRE.get_value_ptr_mut(generation, &reversal))
}

/// As `service_v4`, of IPv6.
#[inline(always)]
fn service_v6(generation: u32, reversal: u16) -> Option<*mut Service6> {
    CILIUM_NAT6
        .get_value_ptr_mut(generation, &reversal)
        .or_else(|| CILIUM_NAT6_PRE.get_value_ptr_mut(generation, &reversal))
}

/// What the entry of the packet's connection names in the maps of reversals; 0: Cilium has not
/// translated the destination. `None` without an entry.
#[inline(always)]
fn reversal(packet: &Packet, place: u32) -> Option<u16> {
    let entry = if packet.dst.is_v4() {
        let key = Connection4::from_packet(packet);
        let entry = CILIUM_CT4.get_value_ptr_mut(place, &key);
        entry.or_else(|| CILIUM_CT4_CPU.get_value_ptr_mut(place, &key))
    } else {
        let key = Connection6::from_packet(packet);
        let entry = CILIUM_CT6.get_value_ptr_mut(place, &key);
        entry.or_else(|| CILIUM_CT6_CPU.get_value_ptr_mut(place, &key))
    };
    // SAFETY: an entry of a map, which stays readable for the run of the program; every bit pattern
    // is a ConnectionEntry.
    entry.map(|entry| unsafe { (&raw const (*entry).reversal).read_volatile() })
}

/// The one of two generations that has the Service. The number of a reversal may be older than the
/// pinned map, or newer than the map before: if these contradict each other, none.
#[inline(always)]
fn only<'a, S: PartialEq>(new: Option<*mut S>, old: Option<*mut S>) -> Option<&'a S> {
    // SAFETY: as in `reversal`. The kernel aligns values to 8 octets, and every bit pattern is an
    // S.
    let [new, old] = [new, old].map(|service| service.map(|service| unsafe { &*service }));
    match (new, old) {
        (Some(new), Some(old)) if new != old => None,
        (new, old) => new.or(old),
    }
}

/// Whether Cilium has connected the socket of the packet to the packet's destination, in place of a
/// Service's address, and sets that as what the client asked for; 0 if not. Global, as
/// `translated`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn connected(context: *mut __sk_buff) -> u32 {
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    let packet = work.packet.get();
    if maps::view().is_none_or(|view| view.cilium == 0) || !packet.transport.has_ports() {
        return 0;
    }
    // SAFETY: takes the program's own context.
    let cookie = unsafe { bpf_get_socket_cookie(TcContext::new(context).as_ptr()) };
    for generation in 0..GENERATIONS {
        if let Some(vip) = find_socket(packet, cookie, generation) {
            work.mean(vip);
            return 1;
        }
    }
    0
}

/// Whether Cilium has a record of the socket with this cookie and the destination of the packet.
#[inline(always)]
pub fn has_socket(packet: &Packet, cookie: u64) -> bool {
    (0..GENERATIONS).any(|generation| find_socket(packet, cookie, generation).is_some())
}

/// The Service's address in whose place Cilium has connected the socket to the packet's
/// destination.
#[inline(always)]
fn find_socket(packet: &Packet, cookie: u64, generation: u32) -> Option<Vip> {
    if packet.dst.is_v4() {
        let key = Socket4::from_cookie(cookie, packet);
        let found = CILIUM_SK4.get_value_ptr_mut(generation, &key);
        let found = found.or_else(|| CILIUM_SK4_CPU.get_value_ptr_mut(generation, &key));
        // SAFETY: as in `reversal`.
        found.map(|found| unsafe { found.read_unaligned() }.vip(packet.protocol))
    } else {
        let key = Socket6::from_cookie(cookie, packet);
        let found = CILIUM_SK6.get_value_ptr_mut(generation, &key);
        let found = found.or_else(|| CILIUM_SK6_CPU.get_value_ptr_mut(generation, &key));
        // SAFETY: as in `reversal`.
        found.map(|found| unsafe { found.read_unaligned() }.vip(packet.protocol))
    }
}
