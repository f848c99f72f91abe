//! The answer to a rejected packet. The packet itself is rewritten in place: the kernel gives
//! programs no other packet.
//!
//! The answer has the client's terms ([`Meant`]): it comes from the address and port that the
//! client called, and goes to the client as it was before masquerade. No translator has to
//! translate it back.
//!
//! TCP gets a RST ([`mod@reset`]), UDP and SCTP an ICMP error ([`icmp`]), both behind a new IP
//! header ([`network`]) without options. The link layer is the caller's.

mod icmp;
mod limit;
mod network;
mod refuses;
mod reset;
mod sum;

pub use icmp::MAX_QUOTE;
pub use limit::{AnswerLimits, Bucket};
pub use network::options_length;
pub use refuses::refuses;
pub use reset::write as reset;
pub use sum::Sum;

use crate::protocol::{SCTP, TCP, UDP};
use crate::{Bytes, Meant, Packet};

/// A packet that can be made into another one. Offsets count as those of [`Bytes`], lengths from
/// the same place.
///
/// `None` anywhere: the packet is spoilt, and can only be dropped.
pub trait Rewrite: Bytes {
    /// Puts words at `offset`, as they lie in memory.
    fn write<const N: usize>(&mut self, offset: u32, words: [u32; N]) -> Option<()>;

    /// Cuts the packet to this length, or lengthens it. It is no GSO packet afterwards, and the
    /// kernel keeps no sum of what it received.
    fn resize(&mut self, length: u32) -> Option<()>;

    /// Takes `count` octets out behind the first IP header, which has no VLAN tag before it.
    fn cut_options(&mut self, count: u32) -> Option<()>;

    /// Whether the transport checksum is left to the device (`CHECKSUM_PARTIAL`). The octets at
    /// `offset` are zero, and may be something else afterwards.
    fn is_partial(&mut self, offset: u32) -> Option<bool>;
}

/// Whether the packet may be answered: never a RST (RFC 9293 section 3.10.7.1), an SCTP ABORT (RFC
/// 9260 section 8.4), an ICMP message, a fragment without ports, nor anything from or to an address
/// that is not one host's (RFC 1122 section 3.2.2).
#[inline(always)]
pub fn is_answerable<B: Bytes>(bytes: &B, packet: &Packet) -> bool {
    if !packet.transport.has_ports() || !packet.src.is_one_host() || !packet.dst.is_one_host() {
        return false;
    }
    let kind_at = match packet.protocol {
        TCP => 13,
        SCTP => 12,
        _ => return packet.protocol == UDP,
    };
    let Some([kind]) = bytes.read(packet.transport_at + kind_at) else {
        return false;
    };
    if packet.protocol == TCP {
        kind & reset::RST == 0
    } else {
        kind != ABORT && kind != SHUTDOWN_COMPLETE
    }
}

/// Chunk types of RFC 9260.
const ABORT: u8 = 6;
const SHUTDOWN_COMPLETE: u8 = 14;

/// Makes the packet into its answer, from what its client asked for to the client.
#[inline(always)]
pub fn answer<R: Rewrite>(frame: &mut R, packet: &Packet, meant: &Meant) -> Option<()> {
    if packet.protocol == TCP {
        reset::write(frame, packet, meant)?;
    } else {
        icmp::write(frame, packet, meant)?;
    }
    let options = options_length(packet);
    if options == 0 {
        return Some(());
    }
    frame.cut_options(options)
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
#[path = "tests.rs"]
mod tests;
