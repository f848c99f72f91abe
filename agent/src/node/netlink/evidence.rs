//! What single routes and neighbours prove about which addresses are in use.

use epguard_common::Addr;
use rtnetlink::packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteType,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The one address that a route names. A route to one address counts as evidence that the address is in use, in any
/// table and through any interface. There are two exceptions: a route that refuses packets, and one that the kernel
/// learnt (path MTU, redirect).
pub fn holder(route: &RouteMessage) -> Option<Addr> {
    let destination = route.attributes.iter().find_map(only!(
        RouteAttribute::Destination(RouteAddress::Inet(ip)) => IpAddr::from(*ip),
        RouteAttribute::Destination(RouteAddress::Inet6(ip)) => IpAddr::from(*ip)
    ))?;
    let whole = if destination.is_ipv4() { 32 } else { 128 };
    let refuses = matches!(
        route.header.kind,
        RouteType::BlackHole | RouteType::Unreachable | RouteType::Prohibit | RouteType::Throw
    );
    let learnt = route.header.flags.contains(RouteFlags::Cloned);
    let names = route.header.destination_prefix_length == whole && !refuses && !learnt;
    Some(Addr::from(destination)).filter(|addr| names && addr.is_unicast())
}

/// The interfaces of a default route that applies to every packet. Default routes in the tables of policy routing
/// apply to some packets only.
pub fn defaults(route: &RouteMessage) -> Vec<u32> {
    let header = &route.header;
    let table = route.attributes.iter().find_map(only!(RouteAttribute::Table(table) => *table));
    let everybodys = matches!(table.unwrap_or(header.table.into()), TABLE_MAIN | RT_TABLE_DEFAULT);
    if header.kind != RouteType::Unicast || header.destination_prefix_length != 0 || !everybodys {
        return vec![];
    }
    let mut through = Vec::new();
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(ifindex) => through.push(*ifindex),
            RouteAttribute::MultiPath(hops) => through.extend(hops.iter().map(|hop| hop.interface_index)),
            _ => {}
        }
    }
    through
}

const TABLE_MAIN: u32 = RouteHeader::RT_TABLE_MAIN as u32;
/// linux/rtnetlink.h
const RT_TABLE_DEFAULT: u32 = 253;

/// The link-layer addresses behind the ports of each bridge. A bridge removes those of a deleted port at once, its
/// neighbour table does not.
#[derive(Default)]
pub struct Ports(BTreeMap<u32, BTreeSet<Vec<u8>>>);

impl FromIterator<NeighbourMessage> for Ports {
    fn from_iter<T: IntoIterator<Item = NeighbourMessage>>(entries: T) -> Self {
        let mut ports = Self::default();
        for entry in entries {
            let bridge =
                entry.attributes.iter().find_map(only!(NeighbourAttribute::Controller(bridge) => *bridge));
            if let (Some(bridge), Some(address)) = (bridge, link_address(&entry)) {
                ports.0.entry(bridge).or_default().insert(address);
            }
        }
        ports
    }
}

impl Ports {
    /// True if a neighbour is behind some port; also true if its interface is no bridge.
    fn lead_to(&self, neighbour: &NeighbourMessage) -> bool {
        match (self.0.get(&neighbour.header.ifindex), link_address(neighbour)) {
            (Some(stations), Some(address)) => stations.contains(&address),
            _ => true,
        }
    }
}

fn link_address(neighbour: &NeighbourMessage) -> Option<Vec<u8>> {
    neighbour.attributes.iter().find_map(only!(NeighbourAttribute::LinkLayerAddress(it) => it.clone()))
}

/// The address of a neighbour that has a link-layer address, reachable or stale.
pub fn that_answered(neighbour: &NeighbourMessage, ports: &Ports) -> Option<Addr> {
    let known = matches!(
        neighbour.header.state,
        NeighbourState::Reachable
            | NeighbourState::Stale
            | NeighbourState::Delay
            | NeighbourState::Probe
            | NeighbourState::Permanent
    );
    let address = neighbour.attributes.iter().find_map(only!(
        NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => IpAddr::from(*ip),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => IpAddr::from(*ip)
    ));
    address.filter(|_| known && ports.lead_to(neighbour)).map(Addr::from).filter(|addr| addr.is_unicast())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtnetlink::packet_route::route::{RouteNextHop, RouteVia};
    use std::net::Ipv4Addr;

    const X: Ipv4Addr = Ipv4Addr::new(10, 244, 1, 10);

    fn route(prefix: u8, kind: RouteType, more: &[RouteAttribute]) -> RouteMessage {
        let mut route = RouteMessage::default();
        route.header.destination_prefix_length = prefix;
        route.header.kind = kind;
        route.header.table = RouteHeader::RT_TABLE_MAIN;
        route.attributes = vec![RouteAttribute::Destination(RouteAddress::Inet(X))];
        route.attributes.extend_from_slice(more);
        route
    }

    #[test]
    fn a_host_route_shows_that_its_ip_is_held_and_ranges_refusing_and_learnt_routes_do_not() {
        let gateway = RouteAttribute::Gateway(RouteAddress::Inet(Ipv4Addr::new(10, 0, 0, 1)));
        let via = RouteAttribute::Via(RouteVia::Inet6("fe80::1".parse().unwrap()));
        let leads: [(RouteType, &[RouteAttribute]); 5] = [
            (RouteType::Unicast, &[]),
            (RouteType::Unicast, &[gateway]),
            (RouteType::Unicast, &[via]),
            (RouteType::Unicast, &[RouteAttribute::Table(1000)]),
            (RouteType::Local, &[]),
        ];
        for (kind, more) in leads {
            assert_eq!(holder(&route(32, kind, more)), Some(X.into()), "{kind:?} {more:?}");
        }
        let mut learnt = route(32, RouteType::Unicast, &[]);
        learnt.header.flags = RouteFlags::Cloned;
        let refuses = [RouteType::BlackHole, RouteType::Unreachable, RouteType::Prohibit, RouteType::Throw];
        let refusing = refuses.map(|kind| route(32, kind, &[])).into_iter();
        for route in refusing.chain([learnt, route(24, RouteType::Unicast, &[])]) {
            assert_eq!(holder(&route), None, "{route:?}");
        }
    }

    #[test]
    fn a_default_route_counts_only_in_the_tables_for_all_packets() {
        let oif = RouteAttribute::Oif(7);
        let through = |more: &[RouteAttribute]| defaults(&route(0, RouteType::Unicast, more));
        assert_eq!(through(std::slice::from_ref(&oif)), [7]);
        assert_eq!(through(&[oif.clone(), RouteAttribute::Table(253)]), [7]);
        for policy in [100, 255, 70_000] {
            assert_eq!(through(&[oif.clone(), RouteAttribute::Table(policy)]), [0; 0]);
        }
        let hops = [8, 9].map(|ifindex| {
            let mut hop = RouteNextHop::default();
            hop.interface_index = ifindex;
            hop
        });
        assert_eq!(through(&[RouteAttribute::MultiPath(hops.into())]), [8, 9]);
        assert_eq!(defaults(&route(0, RouteType::BlackHole, std::slice::from_ref(&oif))), [0; 0]);
        assert_eq!(defaults(&route(1, RouteType::Unicast, &[oif])), [0; 0]);
    }

    fn neighbour(state: NeighbourState) -> NeighbourMessage {
        let mut neighbour = NeighbourMessage::default();
        neighbour.header.ifindex = 7;
        neighbour.header.state = state;
        neighbour.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::Inet(X)),
            NeighbourAttribute::LinkLayerAddress(vec![2; 6]),
        ];
        neighbour
    }

    #[test]
    fn only_a_neighbour_that_answered_and_whose_bridge_port_is_there_shows_a_holder() {
        let station = |address: u8| {
            let mut entry = NeighbourMessage::default();
            entry.header.ifindex = 9;
            entry.attributes = vec![
                NeighbourAttribute::LinkLayerAddress(vec![address; 6]),
                NeighbourAttribute::Controller(7),
            ];
            entry
        };
        let x = Some(X.into());
        for (state, stations, expected) in [
            (NeighbourState::Stale, vec![], x),
            (NeighbourState::Failed, vec![], None),
            (NeighbourState::Incomplete, vec![], None),
            (NeighbourState::Stale, vec![station(2), station(3)], x),
            (NeighbourState::Stale, vec![station(3)], None),
        ] {
            let row = format!("{state:?} {stations:?}");
            let found = that_answered(&neighbour(state), &Ports::from_iter(stations));
            assert_eq!(found, expected, "{row}");
        }
    }
}
