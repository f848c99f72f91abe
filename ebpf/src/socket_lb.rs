//! Calls of all sockets of the machine, before and after a socket load balancer: of pods, too.
//!
//! The hook before it sees the Service that a call is aimed at, the hook after it the endpoint. The second one judges the pair, and
//! stores it in the socket, for packets that the socket sends once its Service has a denial.

mod judged;

use crate::redirected::destination;
use crate::{clock, maps};
use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::{bpf_get_retval, bpf_get_socket_cookie, bpf_set_retval};
use aya_ebpf::programs::SockAddrContext;
use epguard_common::{Backend, Call, CallDecision, Connection, Outcome, Reason, Vip};
use judged::judge_call;

/// Not 0: programs of this kind may set the error of the call, Linux 6.1. The agent sets it before it loads them, and the
/// verifier then leaves out the other branch.
#[unsafe(no_mangle)]
static SETS_ERROR: u32 = 0;

/// A cgroup hook that returns 1 lets the system call go on; with 0 it fails, with `EPERM` if no program has set another error.
const ALLOW: i32 = 1;
const FAIL: i32 = 0;
const ECONNREFUSED: i32 = 111;
const AF_INET6: u32 = 10;
const TCP: u8 = 6;

/// What the caller does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `connect`.
    Connect,
    /// `sendto` of a socket, with an address of its own.
    Send,
}

/// Keeps the destination that the caller named, for the hook after the load balancer. A new connection ends the last one, also
/// if the other hook misses the call.
#[inline(always)]
pub fn before(vip: Vip, ctx: &SockAddrContext, kind: Kind) {
    if kind == Kind::Connect {
        forget(ctx);
    }
    let Some(call) = maps::call() else { return };
    let seen = Call::new(cookie(ctx), clock::moment(0).thread, vip);
    // SAFETY: this processor's own element. Another thread may preempt this one and overwrite it; `after` sees that.
    unsafe { call.write_volatile(seen) };
}

/// A call behind the load balancer.
struct Ends {
    /// The destination that the caller named.
    vip: Vip,
    /// The destination that is left.
    endpoint: Vip,
}

/// Judges the destination that is left after the load balancer, and stores it in the socket. Returns what the kernel is to do
/// with the call. `V6`: whether this is a hook of IPv6.
#[inline(always)]
pub fn after<const V6: bool>(endpoint: Vip, ctx: &SockAddrContext, kind: Kind) -> i32 {
    if has_failed() {
        return ALLOW;
    }
    let mut ends = Ends {
        vip: endpoint,
        endpoint,
    };
    // Without the first hook's part the Service is not known, and no longer what an earlier call of the socket meant.
    if !take_call(ctx, &mut ends) {
        match kind {
            Kind::Connect => forget(ctx),
            Kind::Send => sent(ctx, &ends),
        }
        return ALLOW;
    }
    let translated = ends.vip != ends.endpoint;
    let mut decision = CallDecision::Pass;
    if translated {
        maps::count(Reason::Nothing, Outcome::Translated, 0);
        decision = judge_call(ctx, &ends, kind);
    }
    match decision {
        CallDecision::Pass | CallDecision::Wait => {}
        CallDecision::Redirect if redirect::<V6>(ctx, &mut ends.endpoint) => {}
        _ => return refuse(),
    }
    match kind {
        Kind::Connect if translated => {
            if !connected(ctx, &ends, V6) && decision == CallDecision::Wait {
                maps::count(Reason::Nothing, Outcome::RefusedUnseen, 0);
                return refuse();
            }
        }
        Kind::Connect => {}
        Kind::Send => sent(ctx, &ends),
    }
    ALLOW
}

/// Takes the destination of the call that the hook before the load balancer has seen; false if it has seen none. Not inlined:
/// its stack is free again for what follows.
#[inline(never)]
fn take_call(ctx: &SockAddrContext, ends: &mut Ends) -> bool {
    let Some(entry) = maps::call() else {
        return false;
    };
    // SAFETY: as in `before`; every bit pattern is a Call.
    let call = unsafe { entry.read_volatile() };
    if !call.is_of(cookie(ctx), clock::moment(0).thread) {
        return false;
    }
    // SAFETY: as in `before`.
    unsafe { (&raw mut (*entry).cookie).write_volatile(0) };
    ends.vip = call.vip;
    true
}

/// Stores the connection in the socket. False if it could be taken for another one, or there is no room. Not inlined, as
/// `take_call`.
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
    let stored = maps::connect(ctx, &Connection::new(*vip, *endpoint, epoch, clock::now_ns()));
    if !stored {
        maps::count(Reason::Nothing, Outcome::NotRecorded, 0);
    }
    stored
}

/// Whether the socket's entry, valid or not, has the same endpoint for another Service. Not inlined, as `take_call`.
#[inline(never)]
fn is_blurred(ctx: &SockAddrContext, ends: &Ends) -> bool {
    maps::connected(ctx).is_some_and(|(_, last)| last.is_blurred_by(&ends.vip, &ends.endpoint))
}

/// Not inlined, as `take_call`.
#[inline(never)]
fn forget(ctx: &SockAddrContext) {
    if let Some((entry, _)) = maps::connected(ctx) {
        maps::disconnect(entry);
    }
}

/// A connected socket that sends elsewhere, too: from now on its packets to one endpoint cannot be distinguished. Not
/// inlined, as `take_call`.
#[inline(never)]
fn sent(ctx: &SockAddrContext, ends: &Ends) {
    if let Some((entry, connection)) = maps::connected(ctx)
        && connection.is_blurred_by(&ends.vip, &ends.endpoint)
    {
        maps::disconnect(entry);
    }
}

/// Gives the call the endpoint that was chosen. False if there is none.
#[inline(always)]
fn redirect<const V6: bool>(ctx: &SockAddrContext, endpoint: &mut Vip) -> bool {
    let Some(destination) = destination() else {
        return false;
    };
    let Backend { addr, port, .. } = destination.backend;
    let (to, words) = (ctx.sock_addr, addr.words());
    // SAFETY: fields of the program's own context that connect4 or connect6 may write, a word at a time.
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
    (endpoint.addr, endpoint.port) = (addr, port);
    true
}

#[inline(always)]
fn refuse() -> i32 {
    if sets_error() {
        // SAFETY: takes a number only.
        unsafe { bpf_set_retval(-ECONNREFUSED) };
    }
    FAIL
}

/// Whether a program of another project has made the call fail: all programs run, and its error must stay. Before Linux 6.1
/// programs cannot know.
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
