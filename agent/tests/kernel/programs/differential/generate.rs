//! Frames of all kinds, whole: from the transport header out to the link layer.

use super::*;

#[derive(Clone, Copy)]
struct Aim {
    src: Addr,
    dst: Addr,
    port: u16,
    protocol: u8,
}

/// Draws frames. The tables say which packets are worth a look.
pub struct Generator<'a> {
    pub random: &'a mut Rng,
    pub tables: &'a Tables,
}

/// How deep packets lie in packets.
const DEPTH: u32 = 2;
const PROTOCOLS: [u8; 17] = [
    1, 58, 58, 58, 2, 4, 41, 47, 50, 51, 59, 89, 94, 135, 136, 139, 255,
];
/// Unspecified, loopback, link-local, of many hosts.
const STRANGE: [Addr; 7] = [
    Addr::v4([0; 4]),
    Addr::v4([255; 4]),
    Addr::v4([127, 0, 0, 1]),
    Addr::v6([0; 16]),
    Addr::v6([0xff; 16]),
    Addr::v6([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    Addr::v6([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]),
];

/// Hop-by-hop, routing, fragment, authentication, destination options; ESP, mobility, HIP, shim6
/// and none are not walked.
const EXTENSIONS: [u8; 14] = [0, 43, 44, 51, 60, 0, 43, 44, 51, 60, 50, 135, 139, 59];

impl Generator<'_> {
    pub fn frame(&mut self) -> Vec<u8> {
        let (kind, body) = match self.random.u8(..20) {
            0 => (0x0806, self.arp()),
            1 => (
                self.pick(&[0x88cc, 0x8847, 0x8863, 0x002e, 0x05dc, 0x9100]),
                self.octets(60),
            ),
            _ => self.packet(DEPTH),
        };
        let mut frame = self.link(kind, &body);
        if self.random.u8(..10) == 0 {
            frame.extend(self.octets(20));
        }
        frame
    }

    fn link(&mut self, kind: u16, body: &[u8]) -> Vec<u8> {
        let receiver = match self.random.u8(..20) {
            0 => [0xff; 6],
            1 => [1, 0, 0x5e, 0, 0, 5],
            2 => [2, 0, 0, 0, 0, 1],
            // Like the first octets of an IP header.
            3 | 4 => self.pick(&[
                [0x45, 0, 0, 40, 0, 0],
                [0x46, 0, 0, 0x20, 0, 0],
                [0x4e, 0, 0xff, 0xff, 0xff, 0xff],
                [0x62, 0, 0, 0, 0, 4],
            ]),
            5 => std::array::from_fn(|_| self.random.u8(..)),
            _ => [0; 6],
        };
        let tags = self.pick(&[0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 3]);
        let tags: Vec<u16> = (0..tags)
            .map(|_| self.pick(&[0x8100, 0x8100, 0x88a8, 0x9100]))
            .collect();
        let mut frame = frames::of_type(&tags, kind, body);
        frame[..6].copy_from_slice(&receiver);
        frame
    }

    fn arp(&mut self) -> Vec<u8> {
        let sender = self.host();
        let target = self.host();
        let sender = if self.random.u8(..4) == 0 {
            Addr::v4([0; 4])
        } else {
            sender
        };
        frames::arp(self.random.u8(1..3), sender, target)
    }

    /// With its `EtherType`.
    fn packet(&mut self, depth: u32) -> (u16, Vec<u8>) {
        let aim = self.aim();
        let v4 = aim.dst.is_v4();
        let body = self.transport(aim, v4, depth);
        if v4 {
            (0x0800, self.v4(aim, &body))
        } else {
            (0x86dd, self.v6(aim, body))
        }
    }

    /// Three of four packets go to the endpoint of the connection.
    fn aim(&mut self) -> Aim {
        let protocol = if self.random.u8(..4) == 0 {
            self.pick(&PROTOCOLS)
        } else {
            self.pick(&TRANSPORTS)
        };
        let mut aim = Aim {
            src: self.host(),
            dst: self.host(),
            port: self.pick(&PORTS),
            protocol,
        };
        if self.random.u8(..4) > 0
            && let Some((addr, port, protocol)) = self.tables.endpoint()
        {
            (aim.dst, aim.port) = (addr, port);
            let icmp = if addr.is_v4() { 1 } else { 58 };
            aim.protocol = self.pick(&[icmp, protocol, protocol, protocol]);
        }
        if self.random.u8(..20) == 0 {
            aim.port = self.random.u16(..);
        }
        // Another address of the same family mostly: others have no packet.
        for _ in 0..8 {
            if aim.src.is_v4() != aim.dst.is_v4() {
                aim.src = self.host();
            }
        }
        aim
    }

    fn host(&mut self) -> Addr {
        let mut host = self.pick(&HOSTS);
        match self.random.u8(..20) {
            0 => host.octets[self.random.usize(12..16)] ^= 1 << self.random.u8(..8),
            1 => host.octets[self.random.usize(..16)] ^= 1 << self.random.u8(..8),
            2 => host = self.pick(&STRANGE),
            // Most senders are in no table.
            3..10 if host.is_v4() => host = Addr::v4([10, 9, 0, self.random.u8(..)]),
            3..10 => host.octets[1] = 0xee,
            _ => {}
        }
        host
    }

    fn v4(&mut self, aim: Aim, body: &[u8]) -> Vec<u8> {
        let words = if self.random.u8(..4) == 0 {
            self.random.u8(0..=10)
        } else {
            0
        };
        let fragment: u16 = self.pick(&[
            0, 0, 0, 0, 0, 0x4000, 0x4000, 0x4000, 0x2000, 0x2001, 1, 0x1fff, 0x8000, 0x0100,
        ]);
        let options = vec![1; 4 * usize::from(words)];
        let mut packet = frames::v4_with(aim.dst, &options, fragment, aim.protocol, body);
        packet[12..16].copy_from_slice(&aim.src.octets[12..]);
        packet
    }

    fn v6(&mut self, aim: Aim, body: Vec<u8>) -> Vec<u8> {
        let mut next = aim.protocol;
        let mut body = body;
        for _ in 0..self.pick(&[0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8]) {
            let kind = self.pick(&EXTENSIONS);
            let mut header = self.extension(kind, next);
            header.append(&mut body);
            (next, body) = (kind, header);
        }
        let mut packet = frames::packet(aim.dst, next, &body);
        packet[8..24].copy_from_slice(&aim.src.octets);
        packet
    }

    fn extension(&mut self, kind: u8, next: u8) -> Vec<u8> {
        let units = self.random.u8(0..3);
        match kind {
            44 => {
                let offset: u16 = self.pick(&[0, 0, 1, 1, 8, 9, 0xfff8, 2, 6]);
                let [high, low] = offset.to_be_bytes();
                vec![next, 0, high, low, 0, 0, 0, 9]
            }
            51 => {
                let mut header = vec![next, units, 0, 0];
                header.resize(4 * (usize::from(units) + 2), 7);
                header
            }
            _ => {
                let mut header = vec![next, units, 1, 4];
                header.resize(8 * (usize::from(units) + 1), 0);
                header
            }
        }
    }

    fn transport(&mut self, aim: Aim, v4: bool, depth: u32) -> Vec<u8> {
        let mut body = 40_000_u16.to_be_bytes().to_vec();
        body.extend(aim.port.to_be_bytes());
        match aim.protocol {
            6 => {
                let flags =
                    self.pick(&[2, 2, 2, 0x12, 0x10, 0x18, 0x11, 4, 0x14, 6, 0xc2, 0xff, 0]);
                body.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
            }
            17 => {
                body.extend([0, 12, 0, 0]);
                if aim.port == 4789 && depth > 0 {
                    let (kind, inner) = self.packet(depth - 1);
                    body.extend([8, 0, 0, 0, 0, 0, 7, 0]);
                    body.extend(self.link(kind, &inner));
                }
            }
            132 => {
                body.extend([
                    0,
                    0,
                    0,
                    7,
                    0,
                    0,
                    0,
                    0,
                    self.pick(&[0, 1, 1, 1, 2, 6, 7, 14, 255]),
                    0,
                    0,
                    20,
                ]);
            }
            1 => body = self.icmp(&[8, 0, 3, 11, 5, 13], depth),
            58 if !v4 => body = self.icmpv6(depth),
            4 | 41 if depth > 0 => body = self.packet(depth - 1).1,
            47 if depth > 0 => {
                let (kind, inner) = self.packet(depth - 1);
                body = [&[0, 0][..], &kind.to_be_bytes(), &inner].concat();
            }
            _ => {}
        }
        body.extend(self.octets(24));
        body
    }

    /// Errors quote a packet.
    fn icmp(&mut self, kinds: &[u8], depth: u32) -> Vec<u8> {
        let mut message = vec![self.pick(kinds), self.random.u8(..4), 0, 0, 0, 0, 0, 0];
        if depth > 0 {
            message.extend(self.packet(depth - 1).1);
        }
        message
    }

    fn icmpv6(&mut self, depth: u32) -> Vec<u8> {
        if self.random.u8(..3) == 0 {
            return self.icmp(&[1, 2, 3, 4, 128, 129, 143], depth);
        }
        let mut message = vec![
            self.pick(&[135, 135, 136, 136, 136, 133, 134, 137]),
            0,
            0,
            0,
            0x20,
            0,
            0,
            0,
        ];
        message.extend(self.host().octets);
        message.extend([2, 1, 2, 0, 0, 0, 0, 9]);
        message
    }

    fn octets(&mut self, most: usize) -> Vec<u8> {
        let length = self.random.usize(..=most);
        (0..length).map(|_| self.random.u8(..)).collect()
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.usize(..of.len())]
    }
}
