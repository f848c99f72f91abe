//! From the cluster IP to a backend, and back.

use super::maps::{
    Frontend, NAMESPACES, SOCKET_BACKENDS, SOCKET_SERVICES, SOCKET_SLOTS, Service, Slot,
};
use super::{affinity, context, reverse};
use crate::flow::Endpoint;
use aya_ebpf::programs::SockAddrContext;
use core::ptr::{read_volatile, write_volatile};

const TCP: u8 = 6;
const UDP: u8 = 17;
const ENOMEM: i32 = 12;
const EHOSTUNREACH: i32 = 113;

/// Where the call goes instead; none: where it was aimed at. An error is an errno that the call
/// ends with. Model `__sock4_xlate_fwd()` and `__sock6_xlate_fwd()`, with `sock6_xlate_v4_in_v6()`:
/// a v4-mapped address is looked up as IPv4.
#[inline(always)]
pub fn forward(ctx: &SockAddrContext, vip: &Endpoint) -> Result<Option<Endpoint>, i32> {
    let protocol = context::protocol(ctx);
    let namespace = context::namespace(ctx);
    if (protocol != TCP && protocol != UDP) || NAMESPACES.get_ptr(namespace).is_none() {
        return Ok(None);
    }
    let key = Frontend {
        ip: vip.ip,
        port: vip.port,
        protocol,
        reserved: 0,
    };
    let Some(entry) = SOCKET_SERVICES.get_ptr_mut(key) else {
        return Ok(None);
    };
    // SAFETY: an entry that stays readable for the run of the program; the lab replaces whole
    // entries.
    let service = unsafe { *entry };
    if service.count == 0 {
        return Err(EHOSTUNREACH);
    }
    let cookie = context::socket_cookie(ctx);
    let backend = match affinity::find(namespace, &service) {
        Some(backend) => backend,
        None => choose(entry, &service, protocol, cookie, namespace).ok_or(EHOSTUNREACH)?,
    };
    if !reverse::store(cookie, &backend, vip, service.rev_nat_index()) {
        return Err(ENOMEM);
    }
    Ok(Some(backend))
}

/// TCP connections take turns; a UDP socket keeps its backend as long as their number stays, by its
/// cookie: model `sock_select_slot()`, which draws for TCP.
#[inline(always)]
fn choose(
    entry: *mut Service,
    service: &Service,
    protocol: u8,
    cookie: u64,
    namespace: u64,
) -> Option<Endpoint> {
    let select = if protocol == TCP { turn(entry) } else { cookie };
    let (number, backend) = slot(service, select)?;
    affinity::store(namespace, service, number);
    Some(backend)
}

/// Takes the Service's next turn.
#[inline(always)]
pub fn turn(entry: *mut Service) -> u64 {
    // SAFETY: an entry that stays writable for the run of the program. Two connections at once may
    // get one turn.
    unsafe {
        let turn = read_volatile(&raw const (*entry).turn);
        write_volatile(&raw mut (*entry).turn, turn.wrapping_add(1));
        u64::from(turn)
    }
}

/// The backend that a number selects, which is any number, and its own number. The Service has
/// backends.
#[inline(always)]
pub fn slot(service: &Service, select: u64) -> Option<(u32, Endpoint)> {
    let slot = Slot {
        service: service.number,
        index: (select % u64::from(service.count)) as u32,
    };
    // SAFETY: the lab replaces whole entries.
    let number = unsafe { *SOCKET_SLOTS.get_ptr(slot)? };
    // SAFETY: as above.
    Some((number, unsafe { *SOCKET_BACKENDS.get_ptr(number)? }))
}

/// The address that `recvmsg` and `getpeername` return instead.
#[inline(always)]
pub fn back(ctx: &SockAddrContext, backend: &Endpoint) -> Option<Endpoint> {
    NAMESPACES.get_ptr(context::namespace(ctx))?;
    reverse::find(context::socket_cookie(ctx), backend, context::protocol(ctx))
}
