//! From the cluster IP to a backend, and back.

use super::{Packet, connections};
use crate::flow::{ETHERNET, Endpoint, mapped};
use crate::socket_lb::maps::{Frontend, SOCKET_BACKENDS, SOCKET_SERVICES, Service};
use crate::socket_lb::translate::{slot, turn};
use aya_ebpf::bindings::{BPF_F_MARK_MANGLED_0, BPF_F_NO_PREALLOC, BPF_F_PSEUDO_HDR};
use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::helpers::generated::bpf_csum_diff;
use aya_ebpf::macros::btf_map;
use aya_ebpf::programs::TcContext;

const UDP: u8 = 17;

/// `struct lb4_reverse_nat`.
#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Nat4 {
    address: u32,
    port: u16,
}

/// `struct lb6_reverse_nat`.
#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Nat6 {
    address: [u32; 4],
    port: u16,
}

/// Cluster IPs by the numbers of their Services. Written by the lab.
#[btf_map]
static NAT4: HashMap<u16, Nat4, 256, { BPF_F_NO_PREALLOC as usize }> = HashMap::new();
#[btf_map]
static NAT6: HashMap<u16, Nat6, 256, { BPF_F_NO_PREALLOC as usize }> = HashMap::new();

/// The Service that the packet goes to: model `lb4_lookup_service()`.
#[inline(always)]
pub fn service(packet: &Packet) -> Option<*mut Service> {
    SOCKET_SERVICES.get_ptr_mut(Frontend {
        ip: packet.dst.ip,
        port: packet.dst.port,
        protocol: packet.protocol,
        reserved: 0,
    })
}

/// The backend for a packet. A connection keeps its own as long as the Service has it: model
/// `lb4_local()`.
#[inline(always)]
pub fn backend(packet: &Packet, entry: *mut Service) -> Option<Endpoint> {
    // SAFETY: an entry that stays readable for the run of the program; the lab replaces whole
    // entries.
    let service = unsafe { *entry };
    let kept = connections::chosen(packet, service.rev_nat_index());
    // The lab gives a backend another number in each Service and never twice, so a number that is
    // there is a member.
    if let Some(backend) = kept.and_then(|number| SOCKET_BACKENDS.get_ptr(number)) {
        // SAFETY: as above.
        return Some(unsafe { *backend });
    }
    if service.count == 0 {
        return None;
    }
    let (number, backend) = slot(&service, turn(entry))?;
    connections::choose(packet, service.rev_nat_index(), number);
    Some(backend)
}

/// The cluster IP of a reply of this family: model `lb4_lookup_rev_nat_entry()`.
#[inline(always)]
pub fn reverse(packet: &Packet, rev_nat_index: u16) -> Option<Endpoint> {
    let (ip, port) = if packet.src.is_mapped() {
        // SAFETY: the lab replaces whole entries.
        let nat = unsafe { *NAT4.get_ptr(rev_nat_index)? };
        (mapped(nat.address), nat.port)
    } else {
        // SAFETY: as above.
        let nat = unsafe { *NAT6.get_ptr(rev_nat_index)? };
        (nat.address, nat.port)
    };
    Some(Endpoint {
        ip,
        port,
        reserved: 0,
    })
}

/// Model `lb4_dnat_request()`.
#[inline(always)]
pub fn set_destination(ctx: &TcContext, packet: &Packet, to: &Endpoint) -> Result<(), i64> {
    let address_at = if to.is_mapped() { 16 } else { 24 };
    write(ctx, packet, &packet.dst, to, ETHERNET + address_at, 2)
}

/// Model `__lb4_rev_nat()`.
#[inline(always)]
pub fn set_source(ctx: &TcContext, packet: &Packet, to: &Endpoint) -> Result<(), i64> {
    let address_at = if to.is_mapped() { 12 } else { 8 };
    write(ctx, packet, &packet.src, to, ETHERNET + address_at, 0)
}

/// Writes address and port with the checksums of their headers: model `lb4_xlate()`,
/// `lb_l4_xlate()` and `l4_modify_port()`.
#[inline(always)]
fn write(
    ctx: &TcContext,
    packet: &Packet,
    from: &Endpoint,
    to: &Endpoint,
    address_at: usize,
    port_in_header: usize,
) -> Result<(), i64> {
    let skb = &ctx.skb;
    let mut old = from.ip;
    let mut new = to.ip;
    let sum = if to.is_mapped() {
        skb.store(address_at, &new[3], 0)?;
        difference(&mut old[3..], &mut new[3..])
    } else {
        skb.store(address_at, &new, 0)?;
        difference(&mut old, &mut new)
    };
    if to.is_mapped() {
        skb.l3_csum_replace(ETHERNET + 10, 0, sum, 0)?;
    }
    let (sum_at, mangled) = if packet.protocol == UDP {
        (packet.transport_at + 6, u64::from(BPF_F_MARK_MANGLED_0))
    } else {
        (packet.transport_at + 16, 0)
    };
    let pseudo = u64::from(BPF_F_PSEUDO_HDR) | mangled;
    skb.l4_csum_replace(sum_at, 0, sum, pseudo)?;
    skb.l4_csum_replace(sum_at, from.port.into(), to.port.into(), 2 | mangled)?;
    skb.store(packet.transport_at + port_in_header, &to.port, 0)
}

/// What a checksum changes by.
#[inline(always)]
fn difference(old: &mut [u32], new: &mut [u32]) -> u64 {
    let length = size_of_val(old) as u32;
    // SAFETY: reads so many octets of each.
    let sum = unsafe { bpf_csum_diff(old.as_mut_ptr(), length, new.as_mut_ptr(), length, 0) };
    sum.cast_unsigned()
}
