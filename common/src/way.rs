//! The way of an answer: out of the interface by which the client's packet came in, or, for a
//! process of this node, into its stack.
//!
//! No answer enters where packets of the denied endpoint do, unless no other program is there: it
//! would take the answer for one of the endpoint's packets. No answer enters at a port of a bridge,
//! which would learn from it.

use crate::{RawRole, Role};

/// An interface as INTERFACES has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its number.
    pub ifindex: u32,
    /// Its role, with flags; zero: unknown.
    pub role: RawRole,
}

/// How an answer leaves to a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Out of this interface, to the next hop that the node's routes name.
    Routed(u32),
    /// Out of this interface, whose other end is the client. The node's routes lead elsewhere.
    OnLink(u32),
}

/// How the answer leaves to a client whose packet came in `here`, and to which the node's routes
/// lead `there`. `None`: the client would not get it, as where the packet's source is forged.
///
/// All ports of bridges count as one, and all uplinks: packets of a host outside may come in by
/// another one than they go out by.
#[inline(always)]
pub fn way_out(here: Place, there: Place) -> Option<Way> {
    if here.ifindex == there.ifindex {
        return Some(Way::Routed(there.ifindex));
    }
    match (here.role.role()?, there.role.role()?) {
        (Role::Pod | Role::Uplink | Role::Stacked, _) if there.role.has(RawRole::BRIDGE) => {
            Some(Way::Routed(there.ifindex))
        }
        (Role::Uplink | Role::Stacked, Role::Uplink | Role::Stacked) => {
            Some(Way::Routed(there.ifindex))
        }
        // Cilium: the node's routes to pods lead to `cilium_host`, where Cilium's programs hand
        // packets on.
        (Role::Pod, Role::Relay) => Some(Way::OnLink(here.ifindex)),
        _ => None,
    }
}

/// Whether a packet in the name of an endpoint may enter the stack at `there`, where the node's
/// routes to the endpoint lead. The packet that it answers leaves `at` an interface: the same one,
/// or one that `there` hands packets on to.
#[inline(always)]
pub fn may_enter(at: u32, there: Place) -> bool {
    let hands_on = there.role.has(RawRole::BRIDGE) || there.role.role().is_some_and(Role::hands_on);
    there.role.has(RawRole::TAKES_ANSWERS) && (there.ifindex == at || hands_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(ifindex: u32, role: Option<Role>, flags: u32) -> Place {
        let number = role.map_or(0, |role| role as u32);
        Place {
            ifindex,
            role: RawRole {
                number: number | flags,
            },
        }
    }

    #[test]
    fn an_answer_leaves_where_the_client_came_in_and_not_to_a_forged_source() {
        let (pod, uplink, tunnel) = (Some(Role::Pod), Some(Role::Uplink), Some(Role::Tunnel));
        let (bridge, relay, vlan) = (Some(Role::Bridge), Some(Role::Relay), Some(Role::Stacked));
        let flag = RawRole::BRIDGE;
        for (name, here, there, expected) in [
            (
                "a pod's own interface",
                place(7, pod, 0),
                place(7, pod, 0),
                Some(Way::Routed(7)),
            ),
            (
                "an interface without a role",
                place(7, None, 0),
                place(7, None, 0),
                Some(Way::Routed(7)),
            ),
            (
                "a pod at a bridge",
                place(7, pod, 0),
                place(3, bridge, flag),
                Some(Way::Routed(3)),
            ),
            (
                "at one with an uplink",
                place(7, pod, 0),
                place(3, relay, flag),
                Some(Way::Routed(3)),
            ),
            (
                "a host at that",
                place(2, uplink, 0),
                place(3, relay, flag),
                Some(Way::Routed(3)),
            ),
            (
                "a pod of Cilium's",
                place(7, pod, 0),
                place(3, relay, 0),
                Some(Way::OnLink(7)),
            ),
            (
                "another uplink",
                place(2, uplink, 0),
                place(5, uplink, 0),
                Some(Way::Routed(5)),
            ),
            (
                "a VLAN of one",
                place(2, uplink, 0),
                place(5, vlan, 0),
                Some(Way::Routed(5)),
            ),
            (
                "a pod forges another's source",
                place(7, pod, 0),
                place(8, pod, 0),
                None,
            ),
            (
                "a pod forges one outside",
                place(7, pod, 0),
                place(2, uplink, 0),
                None,
            ),
            (
                "a tunnel by which no route leads",
                place(4, tunnel, 0),
                place(2, uplink, 0),
                None,
            ),
            (
                "a tunnel whose pods Cilium leads to",
                place(4, tunnel, 0),
                place(3, relay, 0),
                None,
            ),
            (
                "an unknown interface and a bridge",
                place(7, None, 0),
                place(3, bridge, flag),
                None,
            ),
            (
                "a tunnel and a bridge",
                place(4, tunnel, 0),
                place(3, bridge, flag),
                None,
            ),
        ] {
            assert_eq!(way_out(here, there), expected, "{name}");
        }
    }

    #[test]
    fn an_answer_enters_only_where_no_other_program_is_and_at_no_port_of_a_bridge() {
        let (free, bridge) = (RawRole::TAKES_ANSWERS, RawRole::BRIDGE);
        for (name, role, flags, same, expected) in [
            ("the same interface", Some(Role::Pod), free, true, true),
            ("the same, of unknown role", None, free, true, true),
            (
                "the same, with another program",
                Some(Role::Pod),
                0,
                true,
                false,
            ),
            (
                "the bridge of the port",
                Some(Role::Bridge),
                free | bridge,
                false,
                true,
            ),
            (
                "the bridge, with another program",
                Some(Role::Bridge),
                bridge,
                false,
                false,
            ),
            (
                "a bridge with an uplink",
                Some(Role::Relay),
                free | bridge,
                false,
                true,
            ),
            ("the VLAN", Some(Role::Stacked), free, false, true),
            ("elsewhere", Some(Role::Pod), free, false, false),
            ("an uplink", Some(Role::Uplink), free, false, false),
        ] {
            let at = if same { 3 } else { 7 };
            assert_eq!(may_enter(at, place(3, role, flags)), expected, "{name}");
        }
    }
}
