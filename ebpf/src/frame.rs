//! A frame as TC and XDP programs see it.

use crate::work::Work;
use aya_ebpf::EbpfContext;
use epguard_common::{Bytes, Packet};

/// Where a packet was judged, for reports.
pub trait Origin: EbpfContext {
    /// Whether another program of ours may interrupt this one on its processor: true for cgroup
    /// hooks.
    const MAY_BE_INTERRUPTED: bool = false;

    /// Octets, with link-layer header.
    fn length(&self) -> u32;
    /// The interface where the packet enters or leaves; 0: none.
    fn ifindex(&self) -> u32;
    /// The time of this run of the program, nanoseconds of `CLOCK_BOOTTIME`.
    fn now_ns(&self) -> u64;
}

/// What both kinds of programs know of a frame. Offsets of [`Bytes`] count from the network header.
pub trait Frame: Bytes + Origin {
    /// True if this is the last program that judges the packet at this interface. The last program
    /// also reports passes.
    const IS_LAST: bool;

    /// What the program has found out about the packet.
    fn work(&self) -> &Work;
    /// What the network header is, host order.
    fn ether_type(&self) -> u16;
    /// Whether the program can write the answer to the packet. Otherwise a later program does.
    fn can_reject(&self, packet: &Packet) -> bool;
    /// Whether the link layer brought it to more than one host.
    fn is_to_many(&self) -> bool;
    /// Whether the node sends the packet out by an uplink or a tunnel.
    fn leaves(&self, packet: &Packet) -> bool;
    /// Whether the node has routed the packet, or made it.
    fn is_routed(&self) -> bool;
    /// Whether the node's way to the packet's destination, an orphan IP, is that of its range.
    fn follows_range(&self) -> bool;
    /// Whether an answer finds a way to the sender.
    fn has_way(&self) -> bool;
}
