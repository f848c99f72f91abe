//! Session affinity: all sockets of a network namespace go to one backend of a Service.

use super::maps::{Affinity, Client, SOCKET_AFFINITY, SOCKET_BACKENDS, Service};
use crate::flow::Endpoint;
use aya_ebpf::helpers::generated::bpf_ktime_get_ns;

/// The backend that the namespace went to last, unless the time is over or the backend is gone:
/// model `lb4_affinity_backend_id_by_netns()`.
#[inline(always)]
pub fn find(namespace: u64, service: &Service) -> Option<Endpoint> {
    if service.affinity_seconds == 0 {
        return None;
    }
    let key = client(namespace, service);
    let entry = SOCKET_AFFINITY.get_ptr_mut(key)?;
    // SAFETY: an entry that stays readable and writable for the run of the program.
    let affinity = unsafe { *entry };
    let now = now_ns();
    let is_over =
        now.saturating_sub(affinity.used_ns) >= u64::from(service.affinity_seconds) * 1_000_000_000;
    // The lab gives a backend another number in each Service and never twice, so a number that is
    // there is a member.
    let backend = SOCKET_BACKENDS
        .get_ptr(affinity.backend)
        .filter(|_| !is_over);
    let Some(backend) = backend else {
        let _ = SOCKET_AFFINITY.remove(key);
        return None;
    };
    // SAFETY: as above.
    unsafe {
        (*entry).used_ns = now;
        Some(*backend)
    }
}

/// Model `lb4_update_affinity_by_netns()`.
#[inline(always)]
pub fn store(namespace: u64, service: &Service, backend: u32) {
    if service.affinity_seconds != 0 {
        let value = Affinity {
            used_ns: now_ns(),
            backend,
            reserved: 0,
        };
        // As there, a failure is no reason to refuse the call.
        let _ = SOCKET_AFFINITY.insert(client(namespace, service), value, 0);
    }
}

#[inline(always)]
fn client(namespace: u64, service: &Service) -> Client {
    Client {
        namespace,
        service: service.number,
        reserved: 0,
    }
}

#[inline(always)]
fn now_ns() -> u64 {
    // SAFETY: takes nothing.
    unsafe { bpf_ktime_get_ns() }
}
