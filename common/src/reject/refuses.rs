//! What an answer looks like to those who see it pass.

use crate::protocol::{ICMP, ICMPV6, TCP};
use crate::{Bytes, Packet};

/// Whether a packet only refuses another one: a TCP RST, or an ICMP destination unreachable without
/// IP options. epguard sends such answers in the name of an address that no pod holds.
#[inline(always)]
pub fn refuses<B: Bytes>(bytes: &B, packet: &Packet) -> bool {
    match packet.protocol {
        TCP => {
            packet.transport.has_ports()
                && octet_at(bytes, packet.transport_at + 13).is_some_and(|flags| flags & RST != 0)
        }
        ICMP => octet_at(bytes, packet.network_at + 20) == Some(UNREACHABLE),
        ICMPV6 => octet_at(bytes, packet.network_at + 40) == Some(UNREACHABLE_V6),
        _ => false,
    }
}

#[inline(always)]
fn octet_at<B: Bytes>(bytes: &B, offset: u32) -> Option<u8> {
    bytes.read::<1>(offset).map(|[octet]| octet)
}

const RST: u8 = 0x04;
const UNREACHABLE: u8 = 3;
const UNREACHABLE_V6: u8 = 1;

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::parse;
    use std::vec;

    #[test]
    fn a_reset_and_an_unreachable_destination_refuse_and_other_packets_do_not() {
        let v4 = |protocol: u8, rest: &[u8]| {
            let mut frame = vec![
                0x45, 0, 0, 60, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 7, 10, 0, 0, 1,
            ];
            frame.extend(rest);
            frame.extend([0; 40]);
            let packet = parse(&frame, 0x0800).unwrap();
            refuses(&frame, &packet)
        };
        let tcp = |flags| [0, 80, 0, 81, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags];
        assert!(v4(TCP, &tcp(0x04)) && v4(TCP, &tcp(0x14)));
        assert!(!v4(TCP, &tcp(0x12)) && !v4(TCP, &tcp(0x11)) && !v4(17, &tcp(0x04)));
        assert!(v4(ICMP, &[3, 1]) && !v4(ICMP, &[0, 0]) && !v4(ICMP, &[11, 0]));
        for (kind, expected) in [(1, true), (129, false), (136, false)] {
            let mut frame = vec![0x60, 0, 0, 0, 0, 24, ICMPV6, 255];
            frame.extend([0xfd; 32]);
            frame.extend([kind; 24]);
            let packet = parse(&frame, 0x86dd).unwrap();
            assert_eq!(refuses(&frame, &packet), expected, "{kind}");
        }
    }
}
