//! The connections that the programs track. Types and layouts are Cilium's, and so are the names of
//! the pins.

use super::Packet;
use crate::flow::is_mapped;
use aya_ebpf::btf_maps::LruHashMap;
use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
use aya_ebpf::macros::btf_map;

/// `TUPLE_F_OUT`: a pod's packets, `CT_EGRESS`.
pub const EGRESS: u8 = 0;
/// `TUPLE_F_IN`: packets to a pod, `CT_INGRESS`.
pub const INGRESS: u8 = 1;
/// `TUPLE_F_SERVICE`: the choice of a backend, `CT_SERVICE`.
const SERVICE: u8 = 4;

const TCP: u8 = 6;
/// `TCP_FLAG_SYN`, as it is kept.
const SYN: u8 = 2;
/// `CT_SYN_TIMEOUT` and `CT_CONNECTION_LIFETIME_NONTCP`, in seconds.
const LIFETIME: u32 = 60;
/// `src_sec_id`: the identity of all pods.
const IDENTITY: u32 = 0x0001_2345;

/// `struct ipv4_ct_tuple`.
#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Tuple4 {
    daddr: u32,
    saddr: u32,
    dport: u16,
    sport: u16,
    nexthdr: u8,
    flags: u8,
}

/// `struct ipv6_ct_tuple`, and a tuple of either family. "These field names are correct for reply
/// direction traffic", of addresses; those of ports "for original direction traffic".
#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Tuple {
    daddr: [u32; 4],
    saddr: [u32; 4],
    dport: u16,
    sport: u16,
    nexthdr: u8,
    flags: u8,
}

/// `struct ct_entry`. Its counters stay 0, as by default.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    /// Of a [`SERVICE`]. `nat_addr` of others, which only node ports use, lies here as well.
    reserved: u64,
    backend_id: u64,
    packets: u64,
    bytes: u64,
    /// In seconds since boot.
    lifetime: u32,
    bits: u16,
    /// In network order, as all numbers of Services.
    rev_nat_index: u16,
    nat_port: u16,
    tx_flags_seen: u8,
    rx_flags_seen: u8,
    src_sec_id: u32,
    last_tx_report: u32,
    last_rx_report: u32,
}

#[btf_map]
static CT_TCP4: LruHashMap<Tuple4, Entry, 4096> = LruHashMap::new();
#[btf_map]
static CT_ANY4: LruHashMap<Tuple4, Entry, 4096> = LruHashMap::new();
#[btf_map]
static CT_TCP6: LruHashMap<Tuple, Entry, 4096> = LruHashMap::new();
#[btf_map]
static CT_ANY6: LruHashMap<Tuple, Entry, 4096> = LruHashMap::new();

impl Tuple {
    /// As `lb4_extract_tuple()` and `ct_extract_ports4()` read a packet: addresses in their order,
    /// ports reversed.
    #[inline(always)]
    fn of(packet: &Packet, flags: u8) -> Self {
        Self {
            daddr: packet.dst.ip,
            saddr: packet.src.ip,
            dport: packet.src.port,
            sport: packet.dst.port,
            nexthdr: packet.protocol,
            flags,
        }
    }

    /// Model `ipv4_ct_tuple_reverse()`.
    #[inline(always)]
    fn reversed(&self) -> Self {
        Self {
            daddr: self.saddr,
            saddr: self.daddr,
            dport: self.sport,
            sport: self.dport,
            nexthdr: self.nexthdr,
            flags: self.flags ^ INGRESS,
        }
    }

    #[inline(always)]
    fn v4(&self) -> Tuple4 {
        Tuple4 {
            daddr: self.daddr[3],
            saddr: self.saddr[3],
            dport: self.dport,
            sport: self.sport,
            nexthdr: self.nexthdr,
            flags: self.flags,
        }
    }

    /// Its entry, which lives on: model `__ct_lookup()` and, for the maps, `get_ct_map4()`.
    #[inline(always)]
    fn find(&self) -> Option<&'static mut Entry> {
        let entry = match (is_mapped(&{ self.daddr }), self.nexthdr == TCP) {
            (true, true) => CT_TCP4.get_ptr_mut(self.v4()),
            (true, false) => CT_ANY4.get_ptr_mut(self.v4()),
            (false, true) => CT_TCP6.get_ptr_mut(self),
            (false, false) => CT_ANY6.get_ptr_mut(self),
        };
        // SAFETY: an entry that stays readable and writable for the run of the program; every bit
        // pattern is an Entry. Other processors may write it as well, whole words.
        let entry = unsafe { &mut *entry? };
        entry.lifetime = now() + LIFETIME;
        Some(entry)
    }

    /// Model `ct_create4()`, `ct_create_fill_entry()` and `ct_update_timeout()`.
    #[inline(always)]
    fn create(&self, rev_nat_index: u16, backend_id: u32) {
        let now = now();
        let seen = if self.nexthdr == TCP { SYN } else { 0 };
        let is_rx = self.flags == INGRESS;
        let entry = Entry {
            reserved: 0,
            backend_id: backend_id.into(),
            packets: 0,
            bytes: 0,
            lifetime: now + LIFETIME,
            bits: 0,
            rev_nat_index,
            nat_port: 0,
            tx_flags_seen: if is_rx { 0 } else { seen },
            rx_flags_seen: if is_rx { seen } else { 0 },
            src_sec_id: if self.flags == SERVICE { 0 } else { IDENTITY },
            last_tx_report: if is_rx { 0 } else { now },
            last_rx_report: if is_rx { now } else { 0 },
        };
        let _ = match (is_mapped(&{ self.daddr }), self.nexthdr == TCP) {
            (true, true) => CT_TCP4.insert(self.v4(), entry, 0),
            (true, false) => CT_ANY4.insert(self.v4(), entry, 0),
            (false, true) => CT_TCP6.insert(self, entry, 0),
            (false, false) => CT_ANY6.insert(self, entry, 0),
        };
    }
}

/// Tracks a packet with its number of a Service, or 0. Returns that of the connection if the packet
/// is a reply. Model `ct_lookup4()` with `SCOPE_BIDIR`, and how `handle_ipv4_from_lxc()` and
/// `ipv4_policy()` go on; the first also writes an entry anew that is another Service's.
#[inline(always)]
pub fn track(packet: &Packet, direction: u8, rev_nat_index: u16) -> Option<u16> {
    let tuple = Tuple::of(packet, direction ^ INGRESS);
    if let Some(entry) = tuple.find() {
        return Some(entry.rev_nat_index);
    }
    let tuple = tuple.reversed();
    if tuple
        .find()
        .is_none_or(|entry| entry.rev_nat_index != rev_nat_index)
    {
        tuple.create(rev_nat_index, 0);
    }
    None
}

/// Whether the packet is a reply of a tracked connection: model the result `CT_REPLY` of
/// `ct_lookup4()`.
#[inline(always)]
pub fn is_reply(packet: &Packet, direction: u8) -> bool {
    Tuple::of(packet, direction ^ INGRESS).find().is_some()
}

/// The number of the backend that was chosen for this client's endpoint: model the lookup in
/// `lb4_local()`.
#[inline(always)]
pub fn chosen(packet: &Packet, rev_nat_index: u16) -> Option<u32> {
    let entry = Tuple::of(packet, SERVICE).find()?;
    (entry.rev_nat_index == rev_nat_index).then_some(entry.backend_id as u32)
}

/// Keeps the choice: model `ct_create4()` and `ct_update_svc_entry()` in `lb4_local()`.
#[inline(always)]
pub fn choose(packet: &Packet, rev_nat_index: u16, backend: u32) {
    Tuple::of(packet, SERVICE).create(rev_nat_index, backend);
}

/// Model `bpf_mono_now()`.
#[inline(always)]
fn now() -> u32 {
    // SAFETY: takes nothing.
    (unsafe { bpf_ktime_get_ns() } / 1_000_000_000) as u32
}
