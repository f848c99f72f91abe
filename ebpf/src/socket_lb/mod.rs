//! Calls of all sockets of the machine, before and after a socket load balancer: of pods, too.
//!
//! The hook before it sees the Service that a call is aimed at, the hook after it the endpoint. The
//! second one judges the pair, and stores it in the socket, for packets that the socket sends once
//! its Service has a denial.

mod judged;

use crate::{cilium, clock, maps};
use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::bpf_sock_addr;
use aya_ebpf::helpers::generated::{bpf_get_retval, bpf_get_socket_cookie, bpf_set_retval};
use aya_ebpf::programs::SockAddrContext;
use epguard_common::protocol::TCP;
use epguard_common::{
    Addr, Backend, Call, CallDecision, Connection, Outcome, Reason, Vip, packet_of,
};
use judged::judge_call;

/// Not 0: programs of this kind may set the error of the call, Linux 6.1. The agent sets it before
/// it loads them, and the verifier then leaves out the other branch.
#[unsafe(no_mangle)]
static SETS_ERROR: u32 = 0;

/// A cgroup hook that returns 1 lets the system call go on; with 0 it fails, with `EPERM` if no
/// program has set another error.
const ALLOW: i32 = 1;
const FAIL: i32 = 0;
const ECONNREFUSED: i32 = 111;
const AF_INET6: u32 = 10;
/// `TCP_ESTABLISHED`, which UDP uses too.
const ESTABLISHED: u32 = 1;

/// What the caller does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `connect`.
    Connect,
    /// `sendto` of a socket, with an address of its own.
    Send,
}

/// Keeps the destination that the caller named, for the hook after the load balancer. A new
/// connection ends the last one, also if the other hook misses the call.
#[inline(always)]
pub fn before(vip: Vip, ctx: &SockAddrContext, kind: Kind) {
    let Some(call) = maps::call() else { return };
    if kind == Kind::Connect {
        forget(ctx);
    } else if is_free(ctx) {
        // SAFETY: as below. Another call may have left its destination there.
        return unsafe { (&raw mut (*call).cookie).write_volatile(0) };
    }
    let seen = Call::new(cookie(ctx), clock::thread(), vip);
    // SAFETY: this processor's own element. Another thread may preempt this one and overwrite it;
    // `after` sees that.
    unsafe { call.write_volatile(seen) };
}

/// A call behind the load balancer.
struct Ends {
    /// The destination that the caller named.
    vip: Vip,
    /// The destination that is left.
    endpoint: Vip,
}

/// Judges the destination that is left after the load balancer, and stores it in the socket.
/// Returns what the kernel is to do with the call. `V6`: whether this is a hook of IPv6.
#[inline(always)]
pub fn after<const V6: bool>(endpoint: Vip, ctx: &SockAddrContext, kind: Kind) -> i32 {
    if has_failed() {
        return ALLOW;
    }
    if kind == Kind::Send && is_free(ctx) {
        return ALLOW;
    }
    let mut ends = Ends {
        vip: endpoint,
        endpoint,
    };
    // Without the first hook's part the Service is not known, and no longer what an earlier call of
    // the socket meant.
    if !take_call(ctx, &mut ends) {
        match kind {
            Kind::Connect => {
                forget(ctx);
                hide_earlier(ctx, &ends);
            }
            Kind::Send => sent(ctx, &ends),
        }
        return ALLOW;
    }
    let translated = ends.vip != ends.endpoint;
    let mut decision = CallDecision::Pass;
    let mut backend = Backend::default();
    if translated {
        maps::count_call(Reason::Nothing, Outcome::Translated);
        decision = judge_call(ctx, &ends, kind, &mut backend);
    }
    match decision {
        CallDecision::Pass | CallDecision::PassUncounted | CallDecision::Wait => {}
        CallDecision::Redirect => redirect::<V6>(ctx, &mut ends.endpoint, &backend),
        CallDecision::Refuse | CallDecision::RefuseUnseen => return refuse(),
    }
    match kind {
        Kind::Connect if translated => {
            if !connected(ctx, &ends, V6) && decision == CallDecision::Wait {
                maps::count_call(Reason::Nothing, Outcome::RefusedUnseen);
                return refuse();
            }
        }
        Kind::Connect => hide_earlier(ctx, &ends),
        Kind::Send => sent(ctx, &ends),
    }
    ALLOW
}

/// Whether a datagram with an address of its own needs no verdict, and changes nothing that is
/// recorded: no IP is a suspect, and the socket has no connection.
#[inline(always)]
fn is_free(ctx: &SockAddrContext) -> bool {
    maps::view().is_none_or(|view| view.suspects == 0)
        && !is_connected(ctx)
        && maps::connection(ctx).is_none()
}

/// Takes the destination of the call that the hook before the load balancer has seen; false if it
/// has seen none. Not inlined: its stack is free again for what follows.
#[inline(never)]
fn take_call(ctx: &SockAddrContext, ends: &mut Ends) -> bool {
    let Some(entry) = maps::call() else {
        return false;
    };
    // SAFETY: as in `before`; every bit pattern is a Call.
    let call = unsafe { entry.read_volatile() };
    if !call.is_of(cookie(ctx), clock::thread()) {
        return false;
    }
    // SAFETY: as in `before`.
    unsafe { (&raw mut (*entry).cookie).write_volatile(0) };
    ends.vip = call.vip;
    true
}

/// Stores the connection in the socket. False if it could be taken for another one, or there is no
/// room. Not inlined, as `take_call`.
#[inline(never)]
fn connected(ctx: &SockAddrContext, ends: &Ends, by_v6: bool) -> bool {
    // The other family's hook may miss the socket's next call.
    if is_v6(ctx) != by_v6 {
        return false;
    }
    let Ends { vip, endpoint } = ends;
    // If a UDP socket cannot be connected, it keeps its last peer. That was the same endpoint.
    if vip.protocol != TCP && is_blurred(ctx, ends) {
        return false;
    }
    let epoch = maps::view().map_or(0, |view| view.socket_lb_epoch);
    let stored = maps::connect(
        ctx,
        &Connection::new(*vip, *endpoint, epoch, clock::now_ns()),
    );
    if !stored {
        maps::count_call(Reason::Nothing, Outcome::NotRecorded);
    }
    stored
}

/// Whether the socket's entry, valid or not, has the same endpoint for another Service. Not
/// inlined, as `take_call`.
#[inline(never)]
fn is_blurred(ctx: &SockAddrContext, ends: &Ends) -> bool {
    maps::connected(ctx).is_some_and(|(_, last)| last.is_blurred_by(&ends.vip, &ends.endpoint))
}

/// Not inlined, as `take_call`.
#[inline(never)]
fn forget(ctx: &SockAddrContext) {
    if let Some(entry) = maps::connection(ctx) {
        maps::disconnect(entry);
    }
}

/// A socket that goes to the endpoint by itself, or may: if Cilium has recorded a Service of this
/// socket and endpoint, that shows nothing of the socket's packets from now on. Not inlined, as
/// `take_call`.
#[inline(never)]
fn hide_earlier(ctx: &SockAddrContext, ends: &Ends) {
    if maps::view().is_some_and(|view| view.cilium != 0)
        && cilium::has_socket(&packet_of(&ends.endpoint), cookie(ctx))
    {
        maps::hide(ctx);
    }
}

/// Whether the socket has a peer.
#[inline(always)]
fn is_connected(ctx: &SockAddrContext) -> bool {
    // SAFETY: the socket of the program's own context; the verifier demands the test for null.
    unsafe { (*ctx.sock_addr).__bindgen_anon_1.sk.as_ref() }
        .is_some_and(|socket| socket.state == ESTABLISHED)
}

/// A connected socket that sends elsewhere, too: from now on its packets to one endpoint cannot be
/// distinguished. Not inlined, as `take_call`.
#[inline(never)]
fn sent(ctx: &SockAddrContext, ends: &Ends) {
    match maps::connected(ctx) {
        Some((entry, connection)) if connection.is_blurred_by(&ends.vip, &ends.endpoint) => {
            maps::disconnect(entry);
        }
        None if is_connected(ctx) => hide_earlier(ctx, ends),
        Some(_) | None => {}
    }
}

/// Gives the call the endpoint that was chosen.
#[inline(always)]
fn redirect<const V6: bool>(ctx: &SockAddrContext, endpoint: &mut Vip, backend: &Backend) {
    let Backend { addr, port, .. } = *backend;
    let to = ctx.sock_addr;
    let words = addr.words();
    // SAFETY: fields of the program's own context that connect4 or connect6 may write, a word at a
    // time.
    unsafe {
        if V6 {
            for (number, word) in words.into_iter().enumerate() {
                core::ptr::addr_of_mut!((*to).user_ip6[number]).write_volatile(word);
            }
        } else {
            (*to).user_ip4 = words[3];
        }
        (*to).user_port = u32::from(port.to_be());
    }
    endpoint.addr = addr;
    endpoint.port = port;
}

#[inline(always)]
fn refuse() -> i32 {
    if sets_error() {
        // SAFETY: takes a number only.
        unsafe { bpf_set_retval(-ECONNREFUSED) };
    }
    FAIL
}

/// Whether a program of another project has made the call fail: all programs run, and its error
/// must stay. Before Linux 6.1 programs cannot know.
#[inline(always)]
fn has_failed() -> bool {
    // SAFETY: takes nothing.
    sets_error() && unsafe { bpf_get_retval() } < 0
}

#[inline(always)]
fn sets_error() -> bool {
    // SAFETY: a static that is never written; the agent sets it in the object.
    unsafe { core::ptr::addr_of!(SETS_ERROR).read_volatile() != 0 }
}

/// Whether the socket is one of IPv6, whose peer may be IPv4.
#[inline(always)]
fn is_v6(ctx: &SockAddrContext) -> bool {
    // SAFETY: a field of the program's own context.
    unsafe { (*ctx.sock_addr).family == AF_INET6 }
}

#[inline(always)]
fn cookie(ctx: &SockAddrContext) -> u64 {
    // SAFETY: takes the program's own context.
    unsafe { bpf_get_socket_cookie(ctx.as_ptr()) }
}

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
