//! A network interface, cut down to what decides its role.

use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage};

/// A network interface of the host's network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interface {
    /// The kernel's number of it: the identity, since names are reused.
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
}

impl Interface {
    /// Whether everything that a [`Selection`](super::Selection) looks at is the same.
    ///
    /// A veth that joins a bridge keeps its hooks; only a master of another kind may change the role.
    #[must_use]
    pub fn same_role(&self, other: &Self) -> bool {
        (&self.name, &self.kind, self.is_aggregated(), self.loopback)
            == (&other.name, &other.kind, other.is_aggregated(), other.loopback)
    }

    /// Whether a bond or team stands for this interface.
    #[must_use]
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
        for attribute in link.attributes {
            match attribute {
                LinkAttribute::IfName(name) => interface.name = name,
                LinkAttribute::Controller(master) => interface.master = Some(master),
                LinkAttribute::LinkInfo(infos) => interface.kinds(infos),
                _ => {}
            }
        }
        interface
    }
}

impl Interface {
    fn kinds(&mut self, infos: Vec<LinkInfo>) {
        for info in infos {
            match info {
                LinkInfo::Kind(kind) => self.kind = kind.to_string(),
                LinkInfo::PortKind(kind) => self.master_kind = kind.to_string(),
                _ => {}
            }
        }
    }
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
            loopback: false,
        };
        assert_eq!(veth(Some((2, InfoPortKind::Bridge))), expected);
    }

    #[test]
    fn only_a_bond_or_team_as_master_may_change_the_role() {
        let free = veth(None);
        assert!(free.same_role(&veth(Some((2, InfoPortKind::Bridge)))));
        assert!(!free.same_role(&veth(Some((3, InfoPortKind::Bond)))));
        assert!(!free.same_role(&veth(Some((3, InfoPortKind::Team)))));
    }
}
