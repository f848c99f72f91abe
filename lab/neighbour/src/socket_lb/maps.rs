//! The load balancer's maps. The lab's `socket_lb` module has the same layouts.

use crate::flow::Endpoint;
use aya_ebpf::btf_maps::{HashMap, LruHashMap};
use aya_ebpf::macros::btf_map;

/// Key of `SOCKET_SERVICES`: a cluster IP, its port, its protocol.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Frontend {
    /// In network order, IPv4 as v4-mapped.
    pub ip: [u32; 4],
    /// In network order.
    pub port: u16,
    /// As in the IP header.
    pub protocol: u8,
    pub reserved: u8,
}

/// A Service port: model `struct lb4_service`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Service {
    /// Backends in `SOCKET_SLOTS`, numbered from 0.
    pub count: u32,
    /// The Service port's own number.
    pub number: u32,
    /// 0: no session affinity.
    pub affinity_seconds: u32,
    /// The turn of the next TCP connection. Written here.
    pub turn: u32,
}

impl Service {
    /// As Cilium's maps have it: in network order.
    #[inline(always)]
    pub fn rev_nat_index(&self) -> u16 {
        (self.number as u16).to_be()
    }
}

/// Key of `SOCKET_SLOTS`: a backend's place in a Service.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slot {
    pub service: u32,
    pub index: u32,
}

/// Key of `SOCKET_AFFINITY`: model `struct lb4_affinity_key` with `netns_cookie`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Client {
    pub namespace: u64,
    pub service: u32,
    pub reserved: u32,
}

/// Model `struct lb_affinity_val`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Affinity {
    pub used_ns: u64,
    pub backend: u32,
    pub reserved: u32,
}

/// Network namespaces whose sockets are translated, by cookie. Written by the lab.
#[btf_map]
pub static NAMESPACES: HashMap<u64, u32, 256> = HashMap::new();
/// Written by the lab, but for [`Service::turn`].
#[btf_map]
pub static SOCKET_SERVICES: HashMap<Frontend, Service, 256> = HashMap::new();
/// Backends' numbers by place. Written by the lab.
#[btf_map]
pub static SOCKET_SLOTS: HashMap<Slot, u32, 1024> = HashMap::new();
/// Backends by number. Written by the lab.
#[btf_map]
pub static SOCKET_BACKENDS: HashMap<u32, Endpoint, 1024> = HashMap::new();
/// Written here.
#[btf_map]
pub static SOCKET_AFFINITY: LruHashMap<Client, Affinity, 1024> = LruHashMap::new();
