//! Which interfaces carry the hooks.

use super::{Glob, Interface};
pub use epguard_common::Role;

/// The operator's choice of interfaces. With both lists empty, every interface that packets of pods can pass.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Names of interfaces that lead to pods.
    pub pods: Vec<Glob>,
    /// Names of interfaces that lead out of the node.
    pub uplinks: Vec<Glob>,
}

impl Selection {
    /// The role of an interface; `None` for one without hooks.
    ///
    /// A name that the operator gave counts for every kind, except for loopback.
    #[must_use]
    pub fn role(&self, interface: &Interface) -> Option<Role> {
        let named = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(&interface.name));
        match self {
            _ if interface.loopback => None,
            Self { pods, uplinks } if pods.is_empty() && uplinks.is_empty() => automatic(interface),
            Self { pods, .. } if named(pods) => Some(Role::Pod),
            Self { uplinks, .. } if named(uplinks) => Some(Role::Uplink),
            _ => None,
        }
    }
}

/// The role of an interface by its kind. Packets pass a bridge's ports and a bond's master; hooks on both sides would
/// judge them twice.
fn automatic(interface: &Interface) -> Option<Role> {
    match interface.kind.as_str() {
        _ if interface.is_aggregated() => None,
        "bridge" | "ifb" | "dummy" | "nlmon" => None,
        "veth" | "netkit" | "tun" | "tap" => Some(Role::Pod),
        kind if is_tunnel(kind) => Some(Role::Tunnel),
        _ => Some(Role::Uplink),
    }
}

const TUNNELS: &str =
    "vxlan geneve ipip ip6tnl sit gre gretap ip6gre ip6gretap erspan ip6erspan vti vti6 xfrm wireguard";

/// True for kinds that encapsulate packets for other nodes.
pub(super) fn is_tunnel(kind: &str) -> bool {
    TUNNELS.split(' ').any(|tunnel| tunnel == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, kind: &str, master_kind: &str) -> Interface {
        Interface {
            ifindex: 2,
            name: name.into(),
            kind: kind.into(),
            master_kind: master_kind.into(),
            ..Interface::default()
        }
    }

    fn globs(names: &[&str]) -> Vec<Glob> {
        names.iter().map(|name| Glob::new(name).unwrap()).collect()
    }

    #[test]
    fn without_names_every_interface_that_packets_of_pods_pass_has_a_role() {
        let table = [
            ("eth0", "", "", Some(Role::Uplink)),
            ("eth1", "", "bond", None),
            ("eth2", "", "team", None),
            ("eth3", "", "bridge", Some(Role::Uplink)),
            ("bond0", "bond", "", Some(Role::Uplink)),
            ("eth0.7", "vlan", "", Some(Role::Uplink)),
            ("mv0", "macvlan", "", Some(Role::Uplink)),
            ("cni0", "bridge", "", None),
            ("veth12", "veth", "bridge", Some(Role::Pod)),
            ("cali12", "veth", "", Some(Role::Pod)),
            ("lxc12", "netkit", "", Some(Role::Pod)),
            ("tap0", "tun", "", Some(Role::Pod)),
            ("flannel.1", "vxlan", "", Some(Role::Tunnel)),
            ("genev_sys", "geneve", "", Some(Role::Tunnel)),
            ("tunl0", "ipip", "", Some(Role::Tunnel)),
            ("sit0", "sit", "", Some(Role::Tunnel)),
            ("gre1", "gre", "", Some(Role::Tunnel)),
            ("wg0", "wireguard", "", Some(Role::Tunnel)),
            ("kube-ipvs0", "dummy", "", None),
            ("ifb0", "ifb", "", None),
            ("nlmon0", "nlmon", "", None),
        ];
        for (name, kind, master_kind, role) in table {
            let found = Selection::default().role(&interface(name, kind, master_kind));
            assert_eq!(found, role, "{name}");
        }
    }

    #[test]
    fn given_names_select_interfaces_of_every_kind_and_no_others() {
        let selection = Selection { pods: globs(&["cali*", "cni0"]), uplinks: globs(&["eth[0-1]", "*"]) };
        assert_eq!(selection.role(&interface("cali12", "veth", "")), Some(Role::Pod));
        assert_eq!(selection.role(&interface("cni0", "bridge", "")), Some(Role::Pod));
        assert_eq!(selection.role(&interface("eth1", "", "bond")), Some(Role::Uplink));

        let pods_only = Selection { pods: globs(&["cali*"]), uplinks: vec![] };
        assert_eq!(pods_only.role(&interface("eth0", "", "")), None);
    }

    #[test]
    fn loopback_never_has_a_role() {
        let lo = Interface { loopback: true, ..interface("lo", "", "") };
        let everything = Selection { pods: vec![], uplinks: globs(&["*"]) };
        assert_eq!(Selection::default().role(&lo), None);
        assert_eq!(everything.role(&lo), None);
    }
}
