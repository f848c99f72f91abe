//! The address that a frame shows to be in use. Its sender holds it, also if the API shows no pod there.

use crate::packet::{IPV6, skip_vlan_tags};
use crate::{Addr, Bytes, Packet};

/// The address that a frame shows to be held: the sender of an IP packet, of an ARP message (RFC 826), or the
/// target of an IPv6 neighbour message (RFC 4861 sections 4.3 and 4.4). A host that probes for an address (RFC 5227, RFC 4862
/// section 5.4) is about to take it.
#[inline(always)]
pub fn claimed<B: Bytes>(bytes: &B, ether_type: u16, packet: Option<&Packet>) -> Option<Addr> {
    let (ether_type, offset) = skip_vlan_tags(bytes, ether_type)?;
    if ether_type == ARP {
        let [sender] = bytes.words::<1>(offset + ARP_SENDER)?;
        let address = if sender == 0 { bytes.words::<1>(offset + ARP_TARGET)?[0] } else { sender };
        return Some(Addr::from_v4_word(address));
    }
    let packet = packet?;
    if ether_type != IPV6 || packet.protocol != ICMPV6 {
        return Some(packet.src);
    }
    let [kind] = bytes.read::<1>(offset + 40)?;
    let probes = kind == SOLICITATION && packet.src.octets == [0; 16];
    if kind == ADVERTISEMENT || probes {
        let target = bytes.words::<4>(offset + 48).map(Addr::from_words);
        return target.filter(|target| !target.is_v4());
    }
    Some(packet.src)
}

/// Whether a packet only refuses another one: a TCP RST, or an ICMP destination unreachable without IP options. epguard sends such
/// answers in the name of an address that no pod holds.
#[inline(always)]
pub fn refuses<B: Bytes>(bytes: &B, packet: &Packet) -> bool {
    let has = |offset, bits, value| bytes.read::<1>(offset).is_some_and(|[octet]| octet & bits == value);
    match packet.protocol {
        TCP => packet.transport.has_ports() && has(packet.transport_at + 13, RST, RST),
        ICMP => has(packet.network_at + 20, u8::MAX, UNREACHABLE),
        ICMPV6 => has(packet.network_at + 40, u8::MAX, UNREACHABLE_V6),
        _ => false,
    }
}

const ARP: u16 = 0x0806;
const TCP: u8 = 6;
const RST: u8 = 0x04;
const ICMP: u8 = 1;
const UNREACHABLE: u8 = 3;
const UNREACHABLE_V6: u8 = 1;
/// Of 4-octet protocol addresses behind 6-octet hardware addresses, as on every interface that has ARP here.
const ARP_SENDER: u32 = 14;
const ARP_TARGET: u32 = 24;
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::parse;
    use std::vec;
    use std::vec::Vec;

    fn claim(ether_type: u16, frame: &Vec<u8>) -> Option<Addr> {
        claimed(frame, ether_type, parse(frame, ether_type).as_ref())
    }

    fn arp(sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![0, 1, 8, 0, 6, 4, 0, 2];
        frame.extend([2; 6]);
        frame.extend(sender);
        frame.extend([0; 6]);
        frame.extend(target);
        frame
    }

    fn neighbour(kind: u8, src: [u8; 16], target: [u8; 16]) -> Vec<u8> {
        let mut frame = vec![0x60, 0, 0, 0, 0, 24, 58, 255];
        frame.extend(src);
        frame.extend([0xff; 16]);
        frame.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend(target);
        frame
    }

    const V6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    const LINK: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

    #[test]
    fn a_frame_shows_the_address_that_its_sender_holds() {
        let (v4, v6) = (Some(Addr::v4([10, 0, 0, 7])), Some(Addr { octets: V6 }));
        let message = arp([10, 0, 0, 7], [10, 0, 0, 1]);
        let tagged = [&[0, 9, 8, 6], &message[..]].concat();
        let ping = [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 7, 10, 0, 0, 1, 8][..], &[0; 7]];
        let mapped = Addr::v4([10, 0, 0, 7]).octets;
        for (name, ether_type, frame, expected) in [
            ("an ARP message shows its sender", 0x0806, message, v4),
            ("one behind a tag too", 0x8100, tagged, v4),
            ("an ARP probe shows its target", 0x0806, arp([0; 4], [10, 0, 0, 7]), v4),
            ("one that is cut off none", 0x0806, arp([0; 4], [10, 0, 0, 7])[..20].to_vec(), None),
            ("an advertisement shows its target", 0x86dd, neighbour(136, LINK, V6), v6),
            ("a probe of IPv6 too", 0x86dd, neighbour(135, [0; 16], V6), v6),
            ("a question shows its sender", 0x86dd, neighbour(135, V6, LINK), v6),
            ("a ping of IPv6 too", 0x86dd, neighbour(129, V6, LINK), v6),
            ("a v4-mapped target shows none", 0x86dd, neighbour(136, LINK, mapped), None),
            ("a ping shows its sender", 0x0800, ping.concat(), v4),
            ("LLDP shows none", 0x88cc, vec![0; 64], None),
        ] {
            assert_eq!(claim(ether_type, &frame), expected, "{name}");
        }
    }

    #[test]
    fn a_reset_and_an_unreachable_destination_refuse_and_other_packets_do_not() {
        let v4 = |protocol: u8, rest: &[u8]| {
            let mut frame = vec![0x45, 0, 0, 60, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 7, 10, 0, 0, 1];
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
            let frame = neighbour(kind, V6, LINK);
            let packet = parse(&frame, 0x86dd).unwrap();
            assert_eq!(refuses(&frame, &packet), expected, "{kind}");
        }
    }
}
