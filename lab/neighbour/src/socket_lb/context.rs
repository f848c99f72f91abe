//! The address of a system call, read and written.

use crate::flow::{Endpoint, mapped};
use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::{bpf_get_netns_cookie, bpf_get_socket_cookie, bpf_set_retval};
use aya_ebpf::programs::SockAddrContext;
use core::ptr::{read_volatile, write_volatile};

/// The address of an IPv4 hook, v4-mapped.
#[inline(always)]
pub fn peer4(ctx: &SockAddrContext) -> Endpoint {
    // SAFETY: a field of the program's own context.
    let ip = unsafe { read_volatile(&raw const (*ctx.sock_addr).user_ip4) };
    endpoint(mapped(ip), ctx)
}

/// The address of an IPv6 hook, which may be v4-mapped.
#[inline(always)]
pub fn peer6(ctx: &SockAddrContext) -> Endpoint {
    let mut ip = [0; 4];
    for (word, part) in ip.iter_mut().enumerate() {
        // SAFETY: as in `peer4`, one aligned word at a time as the verifier demands.
        *part = unsafe { read_volatile(&raw const (*ctx.sock_addr).user_ip6[word]) };
    }
    endpoint(ip, ctx)
}

#[inline(always)]
fn endpoint(ip: [u32; 4], ctx: &SockAddrContext) -> Endpoint {
    // SAFETY: as in `peer4`. The port is in network order in the low 16 bits.
    let port = unsafe { read_volatile(&raw const (*ctx.sock_addr).user_port) } as u16;
    Endpoint {
        ip,
        port,
        reserved: 0,
    }
}

/// Writes the address of an IPv4 hook.
#[inline(always)]
pub fn set_peer4(ctx: &SockAddrContext, peer: &Endpoint) {
    // SAFETY: fields of the program's own context that these hooks may write.
    unsafe {
        write_volatile(&raw mut (*ctx.sock_addr).user_ip4, peer.ip[3]);
        write_volatile(&raw mut (*ctx.sock_addr).user_port, u32::from(peer.port));
    }
}

/// Writes the address of an IPv6 hook; the backend of an IPv4 Service is v4-mapped: model
/// `build_v4_in_v6()`.
#[inline(always)]
pub fn set_peer6(ctx: &SockAddrContext, peer: &Endpoint) {
    for (word, part) in peer.ip.iter().enumerate() {
        // SAFETY: as in `set_peer4`.
        unsafe { write_volatile(&raw mut (*ctx.sock_addr).user_ip6[word], *part) };
    }
    // SAFETY: as in `set_peer4`.
    unsafe { write_volatile(&raw mut (*ctx.sock_addr).user_port, u32::from(peer.port)) };
}

/// TCP or UDP: model `sock_proto_enabled()`.
#[inline(always)]
pub fn protocol(ctx: &SockAddrContext) -> u8 {
    // SAFETY: a field of the program's own context.
    (unsafe { read_volatile(&raw const (*ctx.sock_addr).protocol) }) as u8
}

/// Unique on the machine while the socket lives: model `sock_local_cookie()`.
#[inline(always)]
pub fn socket_cookie(ctx: &SockAddrContext) -> u64 {
    // SAFETY: takes the program's own context.
    unsafe { bpf_get_socket_cookie(ctx.as_ptr()) }
}

/// Of the socket's network namespace.
#[inline(always)]
pub fn namespace(ctx: &SockAddrContext) -> u64 {
    // SAFETY: takes the program's own context.
    unsafe { bpf_get_netns_cookie(ctx.as_ptr()) }
}

/// The errno that the system call returns when the program refuses it. Linux 5.18; model
/// `try_set_retval()`.
#[inline(always)]
pub fn set_error(errno: i32) {
    // SAFETY: takes a number only.
    unsafe { bpf_set_retval(-errno) };
}
