//! The oracle's own reading of a frame. It shares nothing with the parser of `epguard-common`, and
//! begins at the Ethernet header.

use std::net::{IpAddr, Ipv6Addr};

/// What a frame shows.
#[derive(Debug)]
pub struct Wire {
    /// The first six octets.
    pub receiver: [u8; 6],
    pub is_tagged: bool,
    pub ip: Option<Ip>,
    /// The address that the frame proves to be in use.
    pub holder: Option<IpAddr>,
}

/// An IP packet that is whole enough to judge.
#[derive(Clone, Copy, Debug)]
pub struct Ip {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub protocol: u8,
    pub ports: Option<Ports>,
}

#[derive(Clone, Copy, Debug)]
pub struct Ports {
    pub src: u16,
    pub dst: u16,
    /// TCP SYN without ACK, SCTP INIT.
    pub opens: bool,
    /// TCP RST, SCTP ABORT and SHUTDOWN COMPLETE.
    pub ends: bool,
}

const TAGS: [u16; 2] = [0x8100, 0x88a8];
const EXTENSIONS: usize = 6;

/// Reads a frame of at least an Ethernet header.
pub fn read(frame: &[u8]) -> Wire {
    let mut wire = Wire {
        receiver: *frame.first_chunk().expect("an Ethernet header"),
        is_tagged: TAGS.contains(&half(frame, 12).unwrap_or(0)),
        ip: None,
        holder: None,
    };
    let Some((kind, body)) = untagged(frame) else {
        return wire;
    };
    match kind {
        0x0800 => wire.ip = v4(body),
        0x86dd => wire.ip = v6(body),
        _ => {}
    }
    wire.holder = wire.ip.filter(|ip| !refuses(body, *ip)).map(|ip| ip.src);
    wire
}

/// A TCP RST or an ICMP destination unreachable, which shows no holder: the type lies where it is
/// without IP options.
fn refuses(packet: &[u8], ip: Ip) -> bool {
    match ip.protocol {
        6 => ip.ports.is_some_and(|ports| ports.ends),
        1 => packet.get(20) == Some(&3),
        58 => packet.get(40) == Some(&1),
        _ => false,
    }
}

/// The `EtherType` behind at most two VLAN tags, and what follows it.
fn untagged(frame: &[u8]) -> Option<(u16, &[u8])> {
    let tags = [12, 16]
        .into_iter()
        .take_while(|at| half(frame, *at).is_some_and(|kind| TAGS.contains(&kind)));
    let at = 12 + 4 * tags.count();
    Some((half(frame, at)?, &frame[at + 2..]))
}

fn v4(packet: &[u8]) -> Option<Ip> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let length = usize::from(header[0] & 15) * 4;
    if header[0] >> 4 != 4 || length < 20 {
        return None;
    }
    let protocol = header[9];
    let later_fragment = half(header, 6)? & 0x1fff != 0;
    Some(Ip {
        src: address4(header, 12)?,
        dst: address4(header, 16)?,
        protocol,
        ports: if later_fragment {
            None
        } else {
            ports(packet, length, protocol)?
        },
    })
}

fn v6(packet: &[u8]) -> Option<Ip> {
    let header: &[u8; 40] = packet.first_chunk()?;
    let src = address6(header, 8)?;
    let dst = address6(header, 24)?;
    if header[0] >> 4 != 6 || [src, dst].iter().any(|end| end.to_ipv4_mapped().is_some()) {
        return None;
    }
    let ip = |protocol, ports| Ip {
        src: src.into(),
        dst: dst.into(),
        protocol,
        ports,
    };
    let mut next = header[6];
    let mut at = 40;
    let mut skipped = 0;
    loop {
        let unit = match next {
            0 | 43 | 60 => 8,
            51 => 4,
            44 if half(packet, at + 2)? >> 3 != 0 => return Some(ip(*packet.get(at)?, None)),
            44 => 0,
            transport => return Some(ip(transport, ports(packet, at, transport)?)),
        };
        if skipped == EXTENSIONS {
            return None;
        }
        let [following, units] = *packet.get(at..)?.first_chunk()?;
        // An authentication header counts words beyond the second, others eights beyond the first.
        at += 8 + unit * usize::from(units);
        (next, skipped) = (following, skipped + 1);
    }
}

/// `None`: the ports, or what shows an opening, are cut off. Then the packet is not judged at all.
#[expect(
    clippy::option_option,
    reason = "other protocols have no ports, and are judged"
)]
fn ports(packet: &[u8], at: usize, protocol: u8) -> Option<Option<Ports>> {
    let (opens, ends) = match protocol {
        6 => {
            let flags = *packet.get(at + 13)?;
            (flags & 0b1_0010 == 0b10, flags & 0b100 != 0)
        }
        17 => (false, false),
        132 => {
            let chunk = *packet.get(at + 12)?;
            (chunk == 1, chunk == 6 || chunk == 14)
        }
        _ => return Some(None),
    };
    let src = half(packet, at)?;
    let dst = half(packet, at + 2)?;
    Some(Some(Ports {
        src,
        dst,
        opens,
        ends,
    }))
}

fn half(octets: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*octets.get(at..)?.first_chunk()?))
}

fn address4(octets: &[u8], at: usize) -> Option<IpAddr> {
    octets
        .get(at..)?
        .first_chunk()
        .map(|octets: &[u8; 4]| IpAddr::from(*octets))
}

fn address6(octets: &[u8], at: usize) -> Option<Ipv6Addr> {
    octets
        .get(at..)?
        .first_chunk()
        .map(|octets: &[u8; 16]| Ipv6Addr::from(*octets))
}
