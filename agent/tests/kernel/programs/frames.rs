//! Frames by hand, from the inside out: transport, network, link.

use epguard_common::Addr;

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const SCTP: u8 = 132;
pub const ICMP: u8 = 1;
pub const ICMPV6: u8 = 58;

pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

const SRC_PORT: [u8; 2] = 40_000u16.to_be_bytes();
/// Of every packet; 5-tuples in events show it.
pub const SRC_V4: [u8; 4] = [10, 244, 2, 2];
pub const SRC_V6: [u8; 16] = [0xfd, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

pub fn tcp(port: u16, flags: u8) -> Vec<u8> {
    let mut segment = ports(port);
    segment.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment
}

pub fn udp(port: u16) -> Vec<u8> {
    let mut datagram = ports(port);
    datagram.extend([0, 12, 0, 0, b'p', b'i', b'n', b'g']);
    datagram
}

/// With one chunk of this type (RFC 9260): 0 DATA, 1 INIT.
pub fn sctp(port: u16, chunk: u8) -> Vec<u8> {
    let mut packet = ports(port);
    packet.extend([0, 0, 0, 7, 0, 0, 0, 0, chunk, 0, 0, 20]);
    packet.extend([0; 16]);
    packet
}

fn ports(dst: u16) -> Vec<u8> {
    [SRC_PORT, dst.to_be_bytes()].concat()
}

/// An IPv4 packet with options (a multiple of 4 octets) and the flags and offset of a fragment.
pub fn v4_with(dst: Addr, options: &[u8], fragment: u16, protocol: u8, body: &[u8]) -> Vec<u8> {
    let words = u8::try_from(5 + options.len() / 4).unwrap();
    let length = u16::try_from(20 + options.len() + body.len()).unwrap();
    let mut packet = vec![0x40 | words, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 1]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(SRC_V4);
    packet.extend(&dst.octets[12..]);
    packet.extend(options);
    packet.extend(body);
    packet
}

/// An IPv4 packet, or an IPv6 one if the destination is.
pub fn packet(dst: Addr, protocol: u8, body: &[u8]) -> Vec<u8> {
    if dst.ip().is_ipv4() {
        return v4_with(dst, &[], 0x4000, protocol, body);
    }
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
    packet.extend([protocol, 64]);
    packet.extend(SRC_V6);
    packet.extend(dst.octets);
    packet.extend(body);
    packet
}

/// An IPv6 packet with these extension headers, each with its number and its octets after the
/// first.
pub fn v6_with(dst: Addr, extensions: &[(u8, &[u8])], protocol: u8, body: &[u8]) -> Vec<u8> {
    let numbers = extensions.iter().map(|(number, _)| *number);
    let mut next = numbers.chain([protocol]);
    let first = next.next().unwrap();
    let mut chain = Vec::new();
    for (_, rest) in extensions {
        chain.push(next.next().unwrap());
        chain.extend(*rest);
    }
    chain.extend(body);
    packet(dst, first, &chain)
}

pub fn frame(packet: &[u8]) -> Vec<u8> {
    tagged(&[], packet)
}

/// An Ethernet frame of an IP packet behind VLAN tags, given by their `EtherType`s, outermost
/// first.
pub fn tagged(tags: &[u16], packet: &[u8]) -> Vec<u8> {
    let ether_type = match packet.first().map(|first| first >> 4) {
        Some(6) => 0x86dd,
        _ => 0x0800,
    };
    of_type(tags, ether_type, packet)
}

/// An ARP message: 1 asks, 2 answers.
pub fn arp(operation: u8, sender: Addr, target: Addr) -> Vec<u8> {
    let mut message = vec![0, 1, 8, 0, 6, 4, 0, operation, 2, 0, 0, 0, 0, 9];
    message.extend(&sender.octets[12..]);
    message.extend([0; 6]);
    message.extend(&target.octets[12..]);
    message
}

pub fn of_type(tags: &[u16], ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2];
    for tag in tags {
        frame.extend(tag.to_be_bytes());
        frame.extend([0, 5]);
    }
    frame.extend(ether_type.to_be_bytes());
    frame.extend(payload);
    frame
}
