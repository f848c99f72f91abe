//! A network interface, reduced to the fields that decide its role.

use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use std::collections::BTreeMap;

/// A network interface of the host's network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interface {
    /// The kernel's number of the interface: its identity, since names are reused.
    pub ifindex: u32,
    /// Name, as in `ip link`.
    pub name: String,
    /// `IFLA_INFO_KIND`: `veth`, `bridge`, `vxlan`, ...; empty for hardware and loopback.
    pub kind: String,
    /// The bridge, bond, team or VRF that this is a port of.
    pub master: Option<u32>,
    /// Kind of that master (`IFLA_INFO_SLAVE_KIND`); empty without one.
    pub master_kind: String,
    /// Whether this is `lo`.
    pub loopback: bool,
    /// `IFLA_LINK`: for a VLAN, the interface that carries it; none if that is in another network
    /// namespace.
    pub lower: Option<u32>,
    /// For a VLAN, the kind of the lowest interface that carries it; for others their own kind.
    /// `None` if that is not known.
    pub base_kind: Option<String>,
    /// True if this represents a port inside the network card that leads to a virtual function
    /// (`phys_port_name` as `pf0vf3`, `c1pf0sf88`). Such a port leads to a pod rather than to the
    /// wire.
    pub representor: bool,
}

/// Most VLANs upon VLANs that are followed: more than any node has.
const MAX_STACK: usize = 8;

/// All interfaces of a network namespace by number, each with its [`Interface::base_kind`].
pub fn stacked(interfaces: impl IntoIterator<Item = Interface>) -> BTreeMap<u32, Interface> {
    let mut all: BTreeMap<_, _> = interfaces
        .into_iter()
        .map(|interface| (interface.ifindex, interface))
        .collect();
    let bases: Vec<_> = all
        .values()
        .map(|interface| base_kind(interface, &all))
        .collect();
    for (interface, base) in all.values_mut().zip(bases) {
        interface.base_kind = base;
    }
    all
}

/// The kind of the interface that carries a VLAN, and VLANs of it; its own kind for others.
fn base_kind(interface: &Interface, all: &BTreeMap<u32, Interface>) -> Option<String> {
    let mut carrier = interface;
    for _ in 0..MAX_STACK {
        if carrier.kind != "vlan" {
            return Some(carrier.kind.clone());
        }
        carrier = all.get(&carrier.lower?)?;
    }
    None
}

impl Interface {
    /// True if all fields that a [`Selection`](super::Selection) reads are equal.
    ///
    /// A veth that joins a bridge keeps its hooks; only a master of another kind may change the
    /// role.
    pub fn same_role(&self, other: &Self) -> bool {
        self.name == other.name
            && self.kind == other.kind
            && self.base_kind == other.base_kind
            && self.is_aggregated() == other.is_aggregated()
            && self.loopback == other.loopback
            && self.representor == other.representor
    }

    /// True if this is a port of a bond or team.
    pub fn is_aggregated(&self) -> bool {
        matches!(self.master_kind.as_str(), "bond" | "team")
    }
}

impl From<LinkMessage> for Interface {
    fn from(link: LinkMessage) -> Self {
        let mut interface = Self {
            ifindex: link.header.index,
            loopback: link.header.flags.contains(LinkFlags::Loopback),
            ..Self::default()
        };
        let mut elsewhere = false;
        for attribute in link.attributes {
            match attribute {
                LinkAttribute::Link(lower) => interface.lower = Some(lower),
                LinkAttribute::LinkNetNsId(_) => elsewhere = true,
                LinkAttribute::PhysPortName(name) => interface.representor = is_function(&name),
                LinkAttribute::IfName(name) => interface.name = name,
                LinkAttribute::Controller(master) => interface.master = Some(master),
                LinkAttribute::LinkInfo(infos) => infos.iter().for_each(|info| match info {
                    LinkInfo::Kind(kind) => interface.kind = kind.to_string(),
                    LinkInfo::PortKind(kind) => interface.master_kind = kind.to_string(),
                    _ => {}
                }),
                _ => {}
            }
        }
        if elsewhere {
            interface.lower = None;
        }
        interface
    }
}

/// True if a port is a function of the network card. By `devlink_port_phys_port_name_get` in the
/// kernel, `p0` is the wire; `pf0`, `pf0vf3`, `pf0sf88` are functions.
fn is_function(port: &str) -> bool {
    ["pf", "vf", "sf"]
        .iter()
        .any(|function| port.contains(function))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtnetlink::packet_route::link::{InfoKind, InfoPortKind};

    fn veth(master: Option<(u32, InfoPortKind)>) -> Interface {
        let mut link = LinkMessage::default();
        link.header.index = 4;
        let mut infos = vec![LinkInfo::Kind(InfoKind::Veth)];
        link.attributes.push(LinkAttribute::IfName("veth4".into()));
        if let Some((ifindex, kind)) = master {
            link.attributes.push(LinkAttribute::Controller(ifindex));
            infos.push(LinkInfo::PortKind(kind));
        }
        link.attributes.push(LinkAttribute::LinkInfo(infos));
        link.into()
    }

    #[test]
    fn a_link_message_yields_name_kind_and_master() {
        let expected = Interface {
            ifindex: 4,
            name: "veth4".into(),
            kind: "veth".into(),
            master: Some(2),
            master_kind: "bridge".into(),
            ..Interface::default()
        };
        assert_eq!(veth(Some((2, InfoPortKind::Bridge))), expected);
    }

    #[test]
    fn a_vlan_is_resolved_to_the_lowest_interface_that_carries_it() {
        let of = |ifindex, kind: &str, lower| Interface {
            ifindex,
            kind: kind.into(),
            lower,
            ..Interface::default()
        };
        let all = stacked([
            of(2, "vlan", Some(3)),
            of(3, "vlan", Some(4)),
            of(4, "bridge", None),
            of(5, "vlan", None),
            of(6, "vlan", Some(7)),
            of(7, "vlan", Some(6)),
            of(8, "veth", Some(9)),
        ]);
        let bases: Vec<_> = all
            .values()
            .map(|found| found.base_kind.as_deref())
            .collect();
        let bridge = Some("bridge");
        assert_eq!(
            bases,
            [bridge, bridge, bridge, None, None, None, Some("veth")]
        );
    }

    #[test]
    fn a_parent_in_another_network_namespace_is_no_parent_and_a_representor_is_known() {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::LinkNetNsId(0));
        link.attributes.push(LinkAttribute::Link(4));
        link.attributes
            .push(LinkAttribute::PhysPortName("pf0vf3".into()));
        let interface = Interface::from(link);
        assert_eq!((interface.lower, interface.representor), (None, true));
        assert!(!is_function("p0"));
    }

    #[test]
    fn only_a_bond_or_team_as_master_may_change_the_role() {
        let free = veth(None);
        assert!(free.same_role(&veth(Some((2, InfoPortKind::Bridge)))));
        assert!(!free.same_role(&veth(Some((3, InfoPortKind::Bond)))));
        assert!(!free.same_role(&veth(Some((3, InfoPortKind::Team)))));
    }
}
