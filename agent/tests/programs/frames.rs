//! Ethernet frames by hand.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "tests and the benchmark use their own parts, and may panic"
)]

use epguard_common::Addr;

pub const CLIENT4: [u8; 4] = [10, 244, 1, 2];
pub const X4: [u8; 4] = [10, 244, 1, 10];
pub const CLIENT6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
pub const X6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10];

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const SCTP: u8 = 132;

pub fn x4() -> Addr {
    Addr::v4(X4)
}

pub fn x6() -> Addr {
    Addr::v6(X6)
}

pub fn ethernet(ether_type: u16, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(ether_type.to_be_bytes());
    frame.extend(body);
    frame
}

/// The same frame with a tag after the MAC addresses.
pub fn tagged(protocol: u16, frame: &[u8]) -> Vec<u8> {
    let mut tagged = frame[..12].to_vec();
    tagged.extend(protocol.to_be_bytes());
    tagged.extend([0, 5]);
    tagged.extend(&frame[12..]);
    tagged
}

pub fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_with(&[], 0x4000, protocol, payload)
}

pub fn ipv4_with(options: &[u8], fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header = 20 + options.len();
    let length = u16::try_from(header + payload.len()).unwrap().to_be_bytes();
    let [high, low] = fragment.to_be_bytes();
    let first = 0x40 | u8::try_from(header / 4).unwrap();
    let mut packet = vec![
        first, 0, length[0], length[1], 0, 1, high, low, 64, protocol, 0, 0,
    ];
    packet.extend(CLIENT4);
    packet.extend(X4);
    packet.extend(options);
    packet.extend(payload);
    ethernet(0x0800, &packet)
}

pub fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, length[0], length[1], next_header, 64];
    packet.extend(CLIENT6);
    packet.extend(X6);
    packet.extend(payload);
    ethernet(0x86dd, &packet)
}

/// From port 40000, with these flags.
pub fn tcp(port: u16, flags: u8) -> Vec<u8> {
    let mut header = ports(port);
    header.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    header
}

pub fn udp(port: u16) -> Vec<u8> {
    let mut header = ports(port);
    header.extend([0, 12, 0, 0, b'e', b'p', b'g', b'!']);
    header
}

/// With one chunk of this type: 1 is INIT, 0 DATA.
pub fn sctp(port: u16, chunk: u8) -> Vec<u8> {
    let mut header = ports(port);
    header.extend([0, 0, 0, 0, 0, 0, 0, 0, chunk, 0, 0, 4]);
    header
}

fn ports(port: u16) -> Vec<u8> {
    [40_000u16.to_be_bytes(), port.to_be_bytes()].concat()
}

pub const SYN: u8 = 0x02;
pub const ACK: u8 = 0x10;
pub const RST: u8 = 0x04;
