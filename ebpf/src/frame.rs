//! A frame as TC and XDP programs see it.

use aya_ebpf::EbpfContext;
use epguard_common::{Addr, Bytes, Packet, claimed};

/// What both kinds of programs know of a frame. Offsets of [`Bytes`] count from the network header.
pub trait Frame: Bytes + EbpfContext {
    /// Whether nobody judges it here after this program. What passes, or is steered, is the last one's to tell and to do.
    const IS_LAST: bool;

    /// What the network header is, host order.
    fn ether_type(&self) -> u16;
    /// Octets, with link-layer header.
    fn length(&self) -> u32;
    /// Where it enters or leaves.
    fn ifindex(&self) -> u32;
    /// Whether an answer can be made of it. What can't is left to a program that can.
    fn is_answered(&self, packet: &Packet) -> bool;
    /// Whether it can be answered or sent elsewhere: that takes a carrier for `number`, where our hooks see it again.
    fn can_turn(&self, number: u16) -> bool;
    /// Whether a hook that it passes on its way to the capture interface can tell that it was judged.
    fn can_capture(&self) -> bool;
    /// Whether the link layer brought it to more than one host.
    fn is_to_many(&self) -> bool;
    /// Whether it is addressed to this host itself, and carries no VLAN tag.
    fn is_ours(&self) -> bool;

    /// The address that the frame shows to be held.
    #[inline(always)]
    fn claimed(&self, packet: Option<&Packet>) -> Option<Addr>
    where
        Self: Sized,
    {
        claimed(self, self.ether_type(), packet)
    }
}
