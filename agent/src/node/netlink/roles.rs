//! Which interfaces carry the hooks, and the role of each, as INTERFACES holds it for the programs.

use super::interface::Interface;
pub use epguard_common::{RawRole, Role};
use glob::Pattern;
use std::collections::{BTreeMap, BTreeSet};

/// The operator's choice of interfaces. With both lists empty, every interface that packets of pods
/// can pass.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Names of interfaces that lead to pods.
    pub pods: Vec<Pattern>,
    /// Names of interfaces that lead out of the node.
    pub uplinks: Vec<Pattern>,
}

impl Selection {
    /// The role of an interface; `None` for one without hooks.
    ///
    /// A name that the operator gave counts for every kind, except for loopback.
    pub fn role(&self, interface: &Interface) -> Option<Role> {
        if interface.loopback {
            None
        } else if self.pods.is_empty() && self.uplinks.is_empty() {
            role_of_kind(interface)
        } else if any_matches(&self.pods, &interface.name) {
            Some(Role::Pod)
        } else if any_matches(&self.uplinks, &interface.name) {
            Some(Role::Uplink)
        } else {
            None
        }
    }
}

fn any_matches(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(name))
}

/// The role of an interface by its kind. Packets pass a bridge's ports and a bond's master; hooks
/// on both sides would judge them twice.
fn role_of_kind(interface: &Interface) -> Option<Role> {
    if interface.is_aggregated() {
        return None;
    }
    match interface.kind.as_str() {
        "bridge" | "ifb" | "dummy" | "nlmon" => None,
        "veth" | "netkit" | "tun" | "tap" => Some(Role::Pod),
        kind if is_tunnel(kind) => Some(Role::Tunnel),
        _ => Some(Role::Uplink),
    }
}

const TUNNELS: &str = "vxlan geneve ipip ip6tnl sit gre gretap ip6gre ip6gretap erspan ip6erspan vti vti6 xfrm wireguard";

/// True for kinds that encapsulate packets for other nodes.
fn is_tunnel(kind: &str) -> bool {
    TUNNELS.split(' ').any(|tunnel| tunnel == kind)
}

/// The kind of bridges.
const BRIDGE: &str = "bridge";

/// The two ends of the veth pair by which Cilium's host sends to pods (`pkg/defaults/node.go` in
/// its repository).
const CILIUM_HOST: [&str; 2] = ["cilium_host", "cilium_net"];

/// The interfaces of the node. An interface with a default route leads out of the node, even a
/// veth: where nodes are containers themselves, their uplinks are veths.
#[derive(Debug, Default)]
pub struct Roles {
    selection: Selection,
    interfaces: BTreeMap<u32, Interface>,
    defaults: BTreeSet<u32>,
}

impl Roles {
    /// Whether the operator's choice, if there is one, names both pod interfaces and uplinks.
    pub const fn name_both_sides(&self) -> bool {
        self.selection.pods.is_empty() == self.selection.uplinks.is_empty()
    }

    /// Without interfaces.
    pub fn new(selection: Selection) -> Self {
        Self {
            selection,
            ..Self::default()
        }
    }

    /// Adds an interface. Returns its role if it is to be hooked.
    pub fn add(&mut self, interface: &Interface) -> Option<Role> {
        self.interfaces.insert(interface.ifindex, interface.clone());
        self.role(interface.ifindex)
    }

    /// Drops an interface.
    pub fn remove(&mut self, ifindex: u32) {
        self.interfaces.remove(&ifindex);
    }

    /// The bridges.
    pub fn bridges(&self) -> impl Iterator<Item = u32> {
        self.interfaces
            .values()
            .filter(|interface| interface.kind == BRIDGE)
            .map(|bridge| bridge.ifindex)
    }

    /// Whether the interface is a bridge.
    pub fn is_bridge(&self, ifindex: u32) -> bool {
        self.interfaces
            .get(&ifindex)
            .is_some_and(|interface| interface.kind == BRIDGE)
    }

    /// The name of an interface.
    pub fn name(&self, ifindex: u32) -> Option<&str> {
        self.interfaces
            .get(&ifindex)
            .map(|interface| &*interface.name)
    }

    /// Names of the interfaces of a kind.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &str> {
        self.interfaces
            .values()
            .filter(move |interface| interface.kind == kind)
            .map(|interface| &*interface.name)
    }

    /// Sets the interfaces that default routes lead through. Returns those whose role this may
    /// change.
    pub fn set_defaults(&mut self, defaults: BTreeSet<u32>) -> Vec<u32> {
        let changed = self
            .defaults
            .symmetric_difference(&defaults)
            .copied()
            .collect();
        self.defaults = defaults;
        changed
    }

    /// The role of an interface; none for one without hooks.
    pub fn role(&self, ifindex: u32) -> Option<Role> {
        let role = self.selection.role(self.interfaces.get(&ifindex)?)?;
        if role == Role::Pod && self.defaults.contains(&ifindex) {
            return Some(Role::Uplink);
        }
        Some(role)
    }

    /// The role that INTERFACES holds. It proves that packets leave the node, so it is none if that
    /// is not certain for the interface. `is_hooked`: whether our programs are at an interface.
    pub fn number(&self, ifindex: u32, is_hooked: impl Fn(u32) -> bool) -> Option<Role> {
        let interface = self.interfaces.get(&ifindex)?;
        if interface.kind == BRIDGE {
            let mut ports = self.interfaces.values();
            let leads_out = ports.any(|port| {
                port.master == Some(ifindex) && self.leads_away(port) && is_hooked(port.ifindex)
            });
            return Some(if leads_out { Role::Relay } else { Role::Bridge });
        }
        let hands_on = self.hands_on(interface, is_hooked);
        match self.role(ifindex)? {
            Role::Pod if !hands_on => Some(Role::Pod),
            Role::Uplink if hands_on && self.leads_away(interface) => Some(Role::Stacked),
            _ if hands_on => Some(Role::Relay),
            _ if !self.leads_away(interface) => None,
            role => Some(role),
        }
    }

    /// The roles of all interfaces, by number.
    pub fn numbers(&self, is_hooked: impl Fn(u32) -> bool) -> impl Iterator<Item = (u32, Role)> {
        let known = self.interfaces.keys();
        known.filter_map(move |ifindex| Some((*ifindex, self.number(*ifindex, &is_hooked)?)))
    }

    /// True if packets that leave here also leave through another hooked interface: a VLAN's
    /// through the interface that carries it, or the ports of the bridge that does; those at
    /// `cilium_host` through the interface that Cilium's programs hand them to.
    fn hands_on(&self, interface: &Interface, is_hooked: impl Fn(u32) -> bool) -> bool {
        if CILIUM_HOST.contains(&interface.name.as_str()) {
            return true;
        }
        if interface.kind != "vlan" {
            return false;
        }
        let Some(lower) = interface.lower else {
            return false;
        };
        is_hooked(lower)
            || self.interfaces.values().any(|port| {
                port.master == Some(lower) && port.master_kind == BRIDGE && is_hooked(port.ifindex)
            })
    }

    /// True if no pod of this node can be behind the interface. Behind a macvlan's, an ipvlan's or
    /// an Open vSwitch's interface, a VRF or an unknown kind, there may be pods as well; behind a
    /// port of a VRF, another network with the same addresses.
    fn leads_away(&self, interface: &Interface) -> bool {
        if interface.master_kind == "vrf" {
            return false;
        }
        let wire = ["", "bond", "team"];
        match interface.kind.as_str() {
            "" => !interface.representor,
            "bond" | "team" => true,
            "vlan" => (interface.base_kind.as_deref()).is_some_and(|base| wire.contains(&base)),
            "veth" => self.defaults.contains(&interface.ifindex),
            kind => is_tunnel(kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(ifindex: u32, kind: &str) -> Interface {
        Interface {
            ifindex,
            name: format!("if{ifindex}"),
            kind: kind.into(),
            ..Interface::default()
        }
    }

    #[test]
    fn a_veth_is_an_uplink_as_long_as_it_carries_the_default_route_whatever_its_name_is() {
        let uplinks = Selection {
            pods: vec![],
            uplinks: patterns(&["*"]),
        };
        for (selection, otherwise) in [(Selection::default(), Some(Role::Pod)), (uplinks, None)] {
            let mut roles = Roles::new(selection);
            roles.add(&interface(2, "veth"));
            assert_eq!(roles.number(2, |_| false), otherwise);
            assert_eq!(roles.set_defaults(BTreeSet::from([2])), [2]);
            assert_eq!(roles.number(2, |_| false), Some(Role::Uplink));
            assert_eq!(roles.set_defaults(BTreeSet::new()), [2]);
            assert_eq!(roles.number(2, |_| false), otherwise);
        }
    }

    #[test]
    fn a_bridge_is_known_but_not_hooked_under_every_name_and_default_route() {
        let any = || patterns(&["*"]);
        for (pods, uplinks) in [(any(), vec![]), (vec![], any()), (vec![], vec![])] {
            let is_named = !pods.is_empty() || !uplinks.is_empty();
            let mut roles = Roles::new(Selection { pods, uplinks });
            assert!(roles.add(&interface(3, "bridge")).is_none() || is_named);
            for defaults in [BTreeSet::new(), BTreeSet::from([3])] {
                roles.set_defaults(defaults);
                assert_eq!(roles.number(3, |_| false), Some(Role::Bridge));
            }
            roles.remove(3);
            assert_eq!(roles.number(3, |_| false), None);
        }
    }

    #[test]
    fn a_vlan_is_stacked_while_the_interface_that_carries_it_is_hooked_too() {
        let mut roles = Roles::default();
        roles.add(&Interface {
            lower: Some(2),
            base_kind: Some(String::new()),
            ..interface(3, "vlan")
        });
        roles.add(&interface(2, ""));
        assert_eq!(roles.number(3, |ifindex| ifindex == 3), Some(Role::Uplink));
        assert_eq!(roles.number(3, |_| true), Some(Role::Stacked));
    }

    /// Answers of other nodes enter at its port, not at the bridge or its VLAN.
    #[test]
    fn a_bridge_and_a_vlan_of_it_are_relays_while_a_hooked_port_leads_out() {
        let mut roles = Roles::default();
        roles.add(&interface(3, "bridge"));
        for (ifindex, kind) in [(2, ""), (4, "veth")] {
            roles.add(&Interface {
                master: Some(3),
                master_kind: "bridge".into(),
                ..interface(ifindex, kind)
            });
        }
        roles.add(&Interface {
            lower: Some(3),
            base_kind: Some("bridge".into()),
            ..interface(5, "vlan")
        });
        assert_eq!(roles.number(3, |ifindex| ifindex == 4), Some(Role::Bridge));
        assert_eq!(roles.number(5, |ifindex| ifindex == 5), None);
        assert_eq!(
            [3, 5].map(|ifindex| roles.number(ifindex, |_| true)),
            [Some(Role::Relay); 2]
        );
    }

    #[test]
    fn a_kind_that_may_lead_to_a_pod_never_becomes_an_uplink() {
        let uplinks = patterns(&["*"]);
        let named = Selection {
            pods: vec![],
            uplinks,
        };
        for selection in [Selection::default(), named] {
            let mut roles = Roles::new(selection);
            let kinds = "openvswitch macvlan macvtap ipvlan ipvtap vrf vlan tun netkit ifb new";
            for (ifindex, kind) in (2..).zip(kinds.split(' ')) {
                roles.add(&interface(ifindex, kind));
                roles.set_defaults(BTreeSet::from([ifindex]));
                let away = [Role::Uplink, Role::Tunnel].map(Some);
                assert!(!away.contains(&roles.number(ifindex, |_| false)), "{kind}");
            }
            for kind in ["", "bond", "team"] {
                roles.add(&interface(2, kind));
                assert_eq!(roles.number(2, |_| false), Some(Role::Uplink), "{kind}");
                let vrf = "vrf".into();
                roles.add(&Interface {
                    master: Some(9),
                    master_kind: vrf,
                    ..interface(2, kind)
                });
                assert_eq!(
                    roles.number(2, |_| false),
                    None,
                    "{kind} of another network"
                );
            }
        }
    }

    #[test]
    fn a_vlan_leads_where_its_carrier_does_and_a_representor_to_a_pod() {
        let mut roles = Roles::default();
        let bases = [
            (Some(""), true),
            (Some("bond"), true),
            (Some("bridge"), false),
            (Some("veth"), false),
            (None, false),
        ];
        for (base, leads) in bases {
            roles.add(&Interface {
                base_kind: base.map(Into::into),
                ..interface(2, "vlan")
            });
            let number = roles.number(2, |_| false);
            assert_eq!(number, leads.then_some(Role::Uplink), "{base:?}");
        }
        roles.add(&Interface {
            representor: true,
            ..interface(2, "")
        });
        assert_eq!(roles.number(2, |_| false), None);
    }

    fn named(name: &str, kind: &str, master_kind: &str) -> Interface {
        Interface {
            name: name.into(),
            master_kind: master_kind.into(),
            ..interface(2, kind)
        }
    }

    fn patterns(names: &[&str]) -> Vec<Pattern> {
        names.iter().map(|name| name.parse().unwrap()).collect()
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
            let found = Selection::default().role(&named(name, kind, master_kind));
            assert_eq!(found, role, "{name}");
        }
    }

    #[test]
    fn given_names_select_interfaces_of_every_kind_but_loopback_and_no_others() {
        let both = Selection {
            pods: patterns(&["cali*", "cni0"]),
            uplinks: patterns(&["eth[0-1]", "*"]),
        };
        let pods_only = Selection {
            pods: patterns(&["cali*"]),
            uplinks: vec![],
        };
        let lo = Interface {
            loopback: true,
            ..named("lo", "", "")
        };
        for (selection, interface, role) in [
            (&both, named("cali12", "veth", ""), Some(Role::Pod)),
            (&both, named("cni0", "bridge", ""), Some(Role::Pod)),
            (&both, named("eth1", "", "bond"), Some(Role::Uplink)),
            (&pods_only, named("eth0", "", ""), None),
            (&both, lo.clone(), None),
            (&Selection::default(), lo, None),
        ] {
            assert_eq!(selection.role(&interface), role, "{interface:?}");
        }
    }
}
