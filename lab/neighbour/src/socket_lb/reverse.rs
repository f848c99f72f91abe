//! Which cluster IP a socket was sent to, by what it was translated to.
//!
//! Types, layouts and, where the lab pins them, names are those of `cilium_lb4_reverse_sk` and
//! `cilium_lb6_reverse_sk`: model `struct ipv4_revnat_tuple` and its siblings. The key is (cookie,
//! backend): a socket that reaches one backend through two Services is shown the one that it used
//! last.

use super::maps::{Frontend, SOCKET_SERVICES};
use crate::flow::{Endpoint, mapped};
use aya_ebpf::btf_maps::LruHashMap;
use aya_ebpf::macros::btf_map;

#[repr(C)]
#[derive(Clone, Copy)]
struct Key4 {
    cookie: u64,
    ip: u32,
    port: u16,
    reserved: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Value4 {
    ip: u32,
    port: u16,
    rev_nat_index: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Key6 {
    cookie: u64,
    ip: [u32; 4],
    port: u16,
    reserved: [u16; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Value6 {
    ip: [u32; 4],
    port: u16,
    rev_nat_index: u16,
}

#[btf_map]
static REVERSE4: LruHashMap<Key4, Value4, 4096> = LruHashMap::new();
#[btf_map]
static REVERSE6: LruHashMap<Key6, Value6, 4096> = LruHashMap::new();

/// Model `sock4_update_revnat()` and `sock6_update_revnat()`. False if there is no memory.
#[inline(always)]
pub fn store(cookie: u64, backend: &Endpoint, vip: &Endpoint, rev_nat_index: u16) -> bool {
    if backend.is_mapped() {
        let value = Value4 {
            ip: vip.ip[3],
            port: vip.port,
            rev_nat_index,
        };
        REVERSE4.insert(key4(cookie, backend), value, 0).is_ok()
    } else {
        let value = Value6 {
            ip: vip.ip,
            port: vip.port,
            rev_nat_index,
        };
        REVERSE6.insert(key6(cookie, backend), value, 0).is_ok()
    }
}

/// The cluster IP behind which the socket sees this backend: model `__sock4_xlate_rev()` and
/// `__sock6_xlate_rev()`. An entry whose Service is gone, is another by now, or has no backends is
/// deleted.
#[inline(always)]
pub fn find(cookie: u64, backend: &Endpoint, protocol: u8) -> Option<Endpoint> {
    let (vip, number) = if backend.is_mapped() {
        // SAFETY: the programs replace whole entries; a torn one names another Service's number.
        let value = unsafe { *REVERSE4.get_ptr(key4(cookie, backend))? };
        (at(mapped(value.ip), value.port), value.rev_nat_index)
    } else {
        // SAFETY: as above.
        let value = unsafe { *REVERSE6.get_ptr(key6(cookie, backend))? };
        (at(value.ip, value.port), value.rev_nat_index)
    };
    let frontend = Frontend {
        ip: vip.ip,
        port: vip.port,
        protocol,
        reserved: 0,
    };
    // SAFETY: the lab replaces whole entries.
    let service = SOCKET_SERVICES
        .get_ptr(frontend)
        .map(|service| unsafe { *service });
    if service.is_some_and(|service| service.rev_nat_index() == number && service.count > 0) {
        return Some(vip);
    }
    let _ = if backend.is_mapped() {
        REVERSE4.remove(key4(cookie, backend))
    } else {
        REVERSE6.remove(key6(cookie, backend))
    };
    None
}

#[inline(always)]
fn key4(cookie: u64, backend: &Endpoint) -> Key4 {
    Key4 {
        cookie,
        ip: backend.ip[3],
        port: backend.port,
        reserved: 0,
    }
}

#[inline(always)]
fn key6(cookie: u64, backend: &Endpoint) -> Key6 {
    Key6 {
        cookie,
        ip: backend.ip,
        port: backend.port,
        reserved: [0; 3],
    }
}

#[inline(always)]
fn at(ip: [u32; 4], port: u16) -> Endpoint {
    Endpoint {
        ip,
        port,
        reserved: 0,
    }
}
