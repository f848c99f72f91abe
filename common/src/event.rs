//! EVENTS: one record for each denied packet that is reported.

use crate::{Addr, ServiceNumber, Uid};

/// One denied, or would-be denied, packet. Numbers instead of enums: it crosses the boundary
/// unchecked.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Event {
    /// `CLOCK_BOOTTIME`.
    pub at_ns: u64,
    /// The pod that the Service meant.
    pub dead_uid: Uid,
    /// The pod that would be, or was, hit.
    pub owner_uid: Uid,
    /// The client, before masquerade where a Service was meant.
    pub src: Addr,
    /// After DNAT: the endpoint.
    pub dst: Addr,
    /// [`crate::Reason`].
    pub reason: u32,
    /// [`crate::Outcome`].
    pub outcome: u32,
    /// Where the packet was leaving.
    pub ifindex: u32,
    /// Bytes, with link-layer header.
    pub length: u32,
    /// The Service.
    pub service: ServiceNumber,
    /// Host order.
    pub src_port: u16,
    /// Host order.
    pub dst_port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// Always 0.
    pub reserved: [u8; 7],
}
