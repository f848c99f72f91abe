//! Sockets of processes on the node: kubelet, hostNetwork pods, sshd.

use crate::{clock, maps};
use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::bpf_sock_addr;
use aya_ebpf::helpers::generated::{bpf_get_netns_cookie, bpf_get_socket_cookie};
use aya_ebpf::programs::{SockAddrContext, SockContext};
use epguard_common::{Addr, Slot, SocketIntent, Vip};

/// Where the call goes, IPv4.
#[inline(always)]
pub fn destination_v4(ctx: &SockAddrContext) -> Vip {
    // SAFETY: fields of the program's own context that connect4 and sendmsg4 may read.
    let ip = unsafe { (*ctx.sock_addr).user_ip4 };
    vip(Addr::v4(ip.to_ne_bytes()), ctx.sock_addr)
}

/// Where the call goes, IPv6; a v4-mapped address is IPv4 already.
#[inline(always)]
pub fn destination_v6(ctx: &SockAddrContext) -> Vip {
    let mut octets = [0; 16];
    for (word, part) in octets.chunks_exact_mut(4).enumerate() {
        // SAFETY: as in `destination_v4`, one aligned word at a time as the verifier demands.
        let ip = unsafe { core::ptr::addr_of!((*ctx.sock_addr).user_ip6[word]).read_volatile() };
        part.copy_from_slice(&ip.to_ne_bytes());
    }
    vip(Addr::v6(octets), ctx.sock_addr)
}

#[inline(always)]
fn vip(addr: Addr, sock_addr: *mut bpf_sock_addr) -> Vip {
    // SAFETY: as in `destination_v4`. The port is in network order in the low 16 bits.
    let (port, protocol) = unsafe { ((*sock_addr).user_port, (*sock_addr).protocol) };
    Vip {
        addr,
        port: u16::from_be(port as u16),
        protocol: protocol as u8,
        reserved: 0,
    }
}

/// Follows a UDP socket from its creation, so that no datagram goes unnoticed. A TCP socket has one peer, which
/// `connect` names.
#[inline(always)]
pub fn create(ctx: &SockContext) {
    // SAFETY: a field of the program's own context.
    let protocol = unsafe { (*ctx.sock).protocol };
    if protocol != u32::from(UDP) {
        return;
    }
    if let Some((cookie, _)) = followed(ctx) {
        maps::record_socket(cookie, &SocketIntent::created(clock::now_ns()));
    }
}

/// Follows a `connect`.
#[inline(always)]
pub fn connect(to: Vip, ctx: &SockAddrContext) {
    let Some((cookie, since_ns)) = followed(ctx) else {
        return;
    };
    let slot = maps::service(&to);
    let known = maps::socket(cookie);
    if slot.is_some() {
        let unused = known.is_some_and(|(_, socket)| socket.is_unused(since_ns));
        let fresh = to.protocol != UDP || unused || local_port(ctx) == 0;
        maps::record_socket(cookie, &SocketIntent::connected(slot, fresh, clock::now_ns()));
    } else if known.is_some() {
        maps::forget_socket(cookie);
    }
}

/// Follows a `sendto`. An older socket that never sent to an affected Service gets no entry.
#[inline(always)]
pub fn send(to: Vip, ctx: &SockAddrContext) {
    let Some((cookie, since_ns)) = followed(ctx) else {
        return;
    };
    let slot: Slot = maps::service(&to);
    let socket = maps::socket(cookie);
    if is_connected(ctx) {
        return still_aimed_at(socket, slot);
    }
    let moment = clock::moment(since_ns);
    match socket {
        // A socket that was connected until now may have sent unnoticed.
        Some((entry, mut socket)) if !socket.connected.is_some() && socket.is_followed(since_ns) => {
            socket.send(slot, moment);
            store_sent(entry, &socket);
        }
        None if !slot.is_some() => {}
        _ => {
            let mut socket = SocketIntent::unconnected(moment);
            socket.send(slot, moment);
            maps::record_socket(cookie, &socket);
        }
    }
}

/// No hook sees what a connected socket sends to its peer. Once it also sends elsewhere, the datagrams cannot be
/// distinguished: the socket loses its intent.
#[inline(always)]
fn still_aimed_at(socket: Option<(*mut SocketIntent, SocketIntent)>, slot: Slot) {
    if let Some((entry, socket)) = socket
        && socket.connected != slot
    {
        // SAFETY: a field of an entry that stays writable for the run of the program; it is only ever cleared.
        unsafe { (&raw mut (*entry).connected).write_volatile(Slot::NONE) };
    }
}

/// Writes what `send` changes, and nothing that other calls change: if threads race, one of them
/// counts, and the others mark the socket as shared.
#[inline(always)]
fn store_sent(entry: *mut SocketIntent, socket: &SocketIntent) {
    // SAFETY: fields of an entry that stays writable for the run of the program.
    unsafe {
        (&raw mut (*entry).thread).write_volatile(socket.thread);
        (&raw mut (*entry).shared).write_volatile(socket.shared);
        (&raw mut (*entry).left).write_volatile(socket.left);
        (&raw mut (*entry).handed).write_volatile(socket.handed);
        (&raw mut (*entry).sent).write_volatile(socket.sent);
        (&raw mut (*entry).sent_ns).write_volatile(socket.sent_ns);
    }
}

/// The socket's local port; 0 for one that was never bound, and so has never sent.
#[inline(always)]
pub fn local_port(ctx: &SockAddrContext) -> u32 {
    // SAFETY: the socket of the program's own context; the verifier demands the test for null.
    unsafe { (*ctx.sock_addr).__bindgen_anon_1.sk.as_ref() }.map_or(u32::MAX, |socket| socket.src_port)
}

#[inline(always)]
fn is_connected(ctx: &SockAddrContext) -> bool {
    // SAFETY: as in `local_port`.
    unsafe { (*ctx.sock_addr).__bindgen_anon_1.sk.as_ref() }.is_some_and(|socket| socket.state == ESTABLISHED)
}

/// `TCP_ESTABLISHED`, which UDP uses too.
const ESTABLISHED: u32 = 1;
const UDP: u8 = 17;

/// The socket's cookie and since when sockets are followed, if any Service is affected and the socket lives in the
/// node's network namespace: pods' own sockets are seen at their interfaces. Linux 5.7 for the namespace's cookie.
#[inline(always)]
fn followed<C: EbpfContext>(ctx: &C) -> Option<(u64, u64)> {
    let view = maps::view().filter(|view| view.suspects != 0 || view.flows != 0)?;
    // SAFETY: both take the program's own context.
    let (netns, cookie) = unsafe {
        (
            bpf_get_netns_cookie(ctx.as_ptr()),
            bpf_get_socket_cookie(ctx.as_ptr()),
        )
    };
    (netns == view.netns_cookie && cookie != 0).then_some((cookie, view.since_ns))
}
