//! Numbers of protocols, as packets have them.

use network_types::eth::EtherType;
use network_types::ip::IpProto;

/// Ethernet's type of IPv4, in host order.
pub const IPV4: u16 = u16::from_be(EtherType::Ipv4 as u16);
/// Ethernet's type of IPv6, in host order.
pub const IPV6: u16 = u16::from_be(EtherType::Ipv6 as u16);

/// The IP protocol.
pub const ICMP: u8 = IpProto::Icmp as u8;
/// The IP protocol.
pub const TCP: u8 = IpProto::Tcp as u8;
/// The IP protocol.
pub const UDP: u8 = IpProto::Udp as u8;
/// The IP protocol.
pub const ICMPV6: u8 = IpProto::Ipv6Icmp as u8;
/// The IP protocol.
pub const SCTP: u8 = IpProto::Sctp as u8;
