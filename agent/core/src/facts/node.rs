//! Nodes: addresses that are never judged, and the ranges that one node alone uses.

use super::{Ignored, Object, RawObject, RawText, Text, Unreadable, addr, null_is_default, shared};
use epguard_common::{Addr, Uid};
use serde::Deserialize;
use std::{fmt, net::IpAddr};

/// In a cluster of more Nodes, an agent watches that of its own node alone and lists the others from time to time: a Node changes every
/// few minutes, and each change would go to each agent.
pub const WATCHED_NODES: usize = 500;

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The node's name.
    pub name: Text,
    /// All addresses of `status.addresses` that are IPs.
    pub addresses: Vec<Addr>,
    /// `spec.podCIDRs`.
    pub pod_cidrs: Vec<Cidr>,
    /// `status.nodeInfo.bootID`: another one means that every binding of the node is void.
    pub boot_id: Uid,
    /// A virtual kubelet: its pods' statuses are not a kubelet's.
    pub virtual_kubelet: bool,
    /// Label `epguard.io/canary`: `canary-mode` of the mode policy applies to the node.
    pub canary: bool,
    /// Label `topology.kubernetes.io/zone`.
    pub zone: Option<Text>,
}

/// An IP range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    base: Addr,
    /// Bits of the v4-mapped address.
    bits: u8,
}

impl Cidr {
    /// Reads `10.244.1.0/24` or `fd00::/64`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (ip, bits) = text.split_once('/')?;
        let ip: IpAddr = ip.parse().ok()?;
        let bits: u8 = bits.parse().ok()?;
        let bits = match ip {
            IpAddr::V4(_) if bits <= 32 => bits + 96,
            IpAddr::V6(_) if bits <= 128 => bits,
            _ => return None,
        };
        Some(Self { base: ip.into(), bits })
    }

    /// True if the address lies in the range. An IPv6 range contains no IPv4 address, though those are stored as
    /// v4-mapped.
    #[must_use]
    pub fn contains(&self, addr: Addr) -> bool {
        if self.is_v4() != addr.is_v4() {
            return false;
        }
        let differing = u128::from_be_bytes(self.base.octets) ^ u128::from_be_bytes(addr.octets);
        differing.leading_zeros() >= u32::from(self.bits)
    }

    /// The lowest address of the range.
    #[must_use]
    pub fn first(&self) -> Addr {
        let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
        Addr { octets: (u128::from_be_bytes(self.base.octets) & mask).to_be_bytes() }
    }

    /// The highest address of the range.
    #[must_use]
    pub fn last(&self) -> Addr {
        let rest = u128::MAX.checked_shr(u32::from(self.bits)).unwrap_or(0);
        Addr { octets: (u128::from_be_bytes(self.first().octets) | rest).to_be_bytes() }
    }

    /// True for a range of IPv4.
    #[must_use]
    pub fn is_v4(&self) -> bool {
        self.base.is_v4() && self.bits >= 96
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = if self.is_v4() { self.bits - 96 } else { self.bits };
        write!(f, "{}/{bits}", self.base)
    }
}

impl Object for Node {
    const KIND: &'static str = "Node";
    const PATH: &'static str = "/api/v1/nodes";
    const NAMESPACED: bool = false;

    type Raw<'a> = RawNode<'a>;

    fn from_named(raw: RawNode<'_>, _: &mut Ignored) -> Result<Self, Unreadable> {
        let virtual_kubelet =
            raw.metadata.labels.get("type").is_some_and(|kind| &**kind == "virtual-kubelet")
                || raw.spec.taints.iter().any(|taint| taint.key.starts_with("virtual-kubelet.io/"));
        let cidrs = raw.spec.pod_cidrs.iter().chain(std::iter::once(&raw.spec.pod_cidr));
        let mut pod_cidrs: Vec<Cidr> = cidrs.filter_map(|cidr| Cidr::parse(cidr)).collect();
        pod_cidrs.dedup();
        Ok(Self {
            name: shared(&raw.metadata.name),
            addresses: raw.status.addresses.iter().filter_map(|a| addr(&a.address)).collect(),
            pod_cidrs,
            boot_id: Uid::parse(&raw.status.node_info.boot_id).unwrap_or_default(),
            virtual_kubelet,
            canary: raw.metadata.labels.get("epguard.io/canary").is_some_and(|is| &**is == "true"),
            zone: raw.metadata.labels.get("topology.kubernetes.io/zone").map(|zone| shared(zone)),
        })
    }
}

/// What is read of its JSON.
type RawNode<'a> = RawObject<'a, Spec<'a>, Status<'a>>;

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Spec<'a> {
    #[serde(rename = "podCIDR", borrow)]
    pod_cidr: RawText<'a>,
    #[serde(rename = "podCIDRs")]
    #[serde(deserialize_with = "null_is_default")]
    pod_cidrs: Vec<RawText<'a>>,
    #[serde(deserialize_with = "null_is_default")]
    taints: Vec<Taint<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Taint<'a> {
    #[serde(borrow)]
    key: RawText<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Status<'a> {
    #[serde(deserialize_with = "null_is_default", borrow)]
    addresses: Vec<Address<'a>>,
    node_info: NodeInfo<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Address<'a> {
    #[serde(borrow)]
    address: RawText<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeInfo<'a> {
    #[serde(rename = "bootID", borrow)]
    boot_id: RawText<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_contains_its_addresses_and_no_other() {
        let range = Cidr::parse("10.244.1.0/24").unwrap();
        assert!(range.contains(Addr::v4([10, 244, 1, 255])));
        assert!(!range.contains(Addr::v4([10, 244, 2, 0])));
        assert!(!range.contains(addr("fd00::1").unwrap()));
        let six = Cidr::parse("fd00:10:244:1::/64").unwrap();
        assert!(six.contains(addr("fd00:10:244:1::a").unwrap()));
        assert!(!six.contains(addr("fd00:10:244:2::a").unwrap()));
        assert_eq!(
            (range.to_string(), six.to_string()),
            ("10.244.1.0/24".into(), "fd00:10:244:1::/64".into())
        );
    }

    #[test]
    fn a_range_of_one_family_contains_nothing_of_the_other() {
        let (four, six) = (Addr::v4([10, 244, 1, 1]), addr("fd00::1").unwrap());
        let contains = |range: &str| {
            let range = Cidr::parse(range).unwrap();
            (range.contains(four), range.contains(six))
        };
        assert_eq!(contains("::/0"), (false, true));
        assert_eq!(contains("0.0.0.0/0"), (true, false));
        assert_eq!(contains("::ffff:10.244.0.0/112"), (true, false), "written as v4-mapped");
        assert_eq!(contains("::ffff:0.0.0.0/90"), (false, false), "no longer only v4");
    }

    #[test]
    fn a_range_with_an_invalid_prefix_length_is_refused() {
        assert_eq!(Cidr::parse("10.0.0.0/33"), None);
        assert_eq!(Cidr::parse("fd00::/129"), None);
        assert_eq!(Cidr::parse("10.0.0.0"), None);
    }
}
