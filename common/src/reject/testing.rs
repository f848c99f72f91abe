//! Packets by hand, a kernel that rewrites them, and another way to sum up.

extern crate std;
use super::*;
use crate::{Addr, Vip, parse};
use std::vec;
use std::vec::Vec;

/// A packet from the network header on; `partial`: where a checksum is left to the device, and its
/// offset from there.
pub struct Frame {
    pub octets: Vec<u8>,
    pub partial: Option<(usize, usize)>,
}

impl Bytes for Frame {
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        self.octets.read(offset)
    }

    fn words<const N: usize>(&self, offset: u32) -> Option<[u32; N]> {
        self.octets.words(offset)
    }
}

impl Rewrite for Frame {
    fn write<const N: usize>(&mut self, offset: u32, words: [u32; N]) -> Option<()> {
        for (word, at) in words.iter().zip((offset as usize..).step_by(4)) {
            self.octets
                .get_mut(at..at + 4)?
                .copy_from_slice(&word.to_ne_bytes());
        }
        Some(())
    }

    fn resize(&mut self, length: u32) -> Option<()> {
        self.octets.resize(length as usize, 0);
        Some(())
    }

    fn cut_options(&mut self, count: u32) -> Option<()> {
        let base = if self.octets[0] >> 4 == 4 { 20 } else { 40 };
        self.octets.drain(base..base + count as usize);
        self.partial = self
            .partial
            .map(|(start, offset)| (start - count as usize, offset));
        Some(())
    }

    fn is_partial(&mut self, offset: u32) -> Option<bool> {
        assert_eq!(self.octets.read::<2>(offset)?, [0, 0]);
        if self.partial.is_none() {
            self.octets[offset as usize] = 0xa5;
        }
        Some(self.partial.is_some())
    }
}

impl Frame {
    /// What the device, or the kernel for it, does with a checksum that is left to it.
    pub fn complete(&mut self) {
        let (start, offset) = self.partial.take().expect("a partial checksum");
        let sum = sum_of(&self.octets[start..]);
        self.octets[start + offset..start + offset + 2].copy_from_slice(&(!sum).to_be_bytes());
    }
}

pub const SRC_V4: [u8; 4] = [10, 244, 2, 2];
pub const DST_V4: [u8; 4] = [10, 244, 1, 10];
pub const SRC_V6: [u8; 16] = [0xfd, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
pub const DST_V6: [u8; 16] = [0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10];
pub const PORTS: [u8; 4] = [0x9c, 0x40, 0x1f, 0x90];

/// What a client asked for whose packets were masqueraded, and whose destination was translated.
pub fn translated(v6: bool) -> Meant {
    let (client, called) = if v6 {
        let mut client = SRC_V6;
        client[15] = 9;
        (
            Addr::v6(client),
            Addr::v6([0xfd, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        )
    } else {
        (Addr::v4([10, 244, 3, 9]), Addr::v4([10, 96, 0, 1]))
    };
    let vip = Vip {
        addr: called,
        port: 443,
        protocol: 0,
        reserved: 0,
    };
    Meant {
        vip,
        client,
        client_port: 50_001,
        endpoint_port: 0x1f90,
    }
}

/// What a client asked for whose packets were not translated.
pub fn untranslated(v6: bool) -> Meant {
    let (src, dst) = if v6 {
        (Addr::v6(SRC_V6), Addr::v6(DST_V6))
    } else {
        (Addr::v4(SRC_V4), Addr::v4(DST_V4))
    };
    let vip = Vip {
        addr: dst,
        port: 0x1f90,
        protocol: 0,
        reserved: 0,
    };
    Meant {
        vip,
        client: src,
        client_port: 0x9c40,
        endpoint_port: 0x1f90,
    }
}

/// The octets of an address on the wire.
pub fn wire(addr: &Addr) -> &[u8] {
    if addr.is_v4() {
        &addr.octets[12..]
    } else {
        &addr.octets
    }
}

pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH_ACK: u8 = 0x18;

/// The sum of RFC 1071 the slow way: octet by octet, in network order.
pub fn sum_of(octets: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in octets.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap()
}

/// An IP packet with these options or extension headers.
pub fn ip(v6: bool, options: &[u8], protocol: u8, body: &[u8]) -> Vec<u8> {
    let length = options.len() + body.len();
    let mut packet;
    if v6 {
        let first = if options.is_empty() { protocol } else { 60 };
        packet = vec![0x60, 1, 2, 3];
        packet.extend(u16::try_from(length).unwrap().to_be_bytes());
        packet.extend([first, 9]);
        packet.extend(SRC_V6);
        packet.extend(DST_V6);
    } else {
        packet = vec![0x45 + u8::try_from(options.len() / 4).unwrap(), 0xb8];
        packet.extend(u16::try_from(length + 20).unwrap().to_be_bytes());
        packet.extend([0x12, 0x34, 0x40, 0, 9, protocol, 0xab, 0xcd]);
        packet.extend(SRC_V4);
        packet.extend(DST_V4);
    }
    packet.extend(options);
    packet.extend(body);
    packet
}

/// An IPv4 packet with these flags and this offset of a fragment.
pub fn fragmented(bits: u16, protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = ip(false, &[], protocol, body);
    packet[6..8].copy_from_slice(&bits.to_be_bytes());
    packet
}

/// Destination options that are padding, followed by a header of `next`.
pub fn extension(next: u8) -> [u8; 8] {
    [next, 0, 1, 4, 0, 0, 0, 0]
}

pub fn tcp(sequence: u32, acknowledged: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = PORTS.to_vec();
    segment.extend(sequence.to_be_bytes());
    segment.extend(acknowledged.to_be_bytes());
    segment.extend([0x60, flags, 1, 2, 3, 4, 0, 0]);
    segment.extend([2, 4, 5, 0xb4]);
    segment.extend(payload);
    segment
}

pub fn udp(payload: &[u8]) -> Vec<u8> {
    let mut datagram = PORTS.to_vec();
    datagram.extend(u16::try_from(payload.len() + 8).unwrap().to_be_bytes());
    datagram.extend([0xbe, 0xef]);
    datagram.extend(payload);
    datagram
}

/// The answer in the terms of the packet.
pub fn answer_of(octets: &[u8], partial: Option<(usize, usize)>) -> Frame {
    answer_to(octets, partial, &untranslated(octets[0] >> 4 == 6))
}

/// The answer in the terms of the client.
pub fn answer_to(octets: &[u8], partial: Option<(usize, usize)>, meant: &Meant) -> Frame {
    let ether_type = if octets[0] >> 4 == 6 { 0x86dd } else { 0x0800 };
    let mut frame = Frame {
        octets: octets.to_vec(),
        partial,
    };
    let packet = parse(&frame, ether_type).unwrap();
    assert!(is_answerable(&frame, &packet));
    answer(&mut frame, &packet, meant).unwrap();
    frame
}

/// Checks the IP header of an answer in the terms of the packet; returns protocol and body.
pub fn opened(octets: &[u8]) -> (u8, &[u8]) {
    opened_by(octets, &untranslated(octets[0] >> 4 == 6))
}

/// As [`opened`], of an answer in the terms of the client.
pub fn opened_by<'a>(octets: &'a [u8], meant: &Meant) -> (u8, &'a [u8]) {
    let ends = (wire(&meant.vip.addr), wire(&meant.client));
    if octets[0] == 0x45 {
        let (header, body) = octets.split_at(20);
        assert_eq!(sum_of(header), 0xffff, "IP header checksum");
        assert_eq!(
            usize::from(u16::from_be_bytes([header[2], header[3]])),
            octets.len()
        );
        assert_eq!((&header[12..16], &header[16..20]), ends);
        return (header[9], body);
    }
    let (header, body) = octets.split_at(40);
    assert_eq!(header[..4], [0x60, 0, 0, 0]);
    assert_eq!(
        usize::from(u16::from_be_bytes([header[4], header[5]])),
        body.len()
    );
    assert_eq!((&header[8..24], &header[24..40]), ends);
    (header[6], body)
}

/// The sum of a body with its pseudo-header: 0xffff if the checksum is right.
pub fn covered(octets: &[u8], protocol: u8, body: &[u8]) -> u16 {
    let addresses = if octets[0] == 0x45 {
        &octets[12..20]
    } else {
        &octets[8..40]
    };
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    sum_of(&[addresses, &length, &[0, 0, 0, protocol], body].concat())
}
