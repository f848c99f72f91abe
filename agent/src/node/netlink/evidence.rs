//! What a route proves: who may hold addresses, and which interfaces lead out of the node.

use epguard_core::facts::Cidr;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteType,
};
use std::net::IpAddr;

/// The addresses that a route leads to, in any table and through any interface. `None` for a route
/// that refuses packets, and for one that the kernel learnt (path MTU, redirect).
pub fn destination(route: &RouteMessage) -> Option<Cidr> {
    let refuses = matches!(
        route.header.kind,
        RouteType::BlackHole | RouteType::Unreachable | RouteType::Prohibit | RouteType::Throw
    );
    let is_learnt = route.header.flags.contains(RouteFlags::Cloned);
    if refuses || is_learnt {
        return None;
    }
    let address = route.attributes.iter().find_map(only!(
        RouteAttribute::Destination(RouteAddress::Inet(ip)) => IpAddr::from(*ip),
        RouteAttribute::Destination(RouteAddress::Inet6(ip)) => IpAddr::from(*ip)
    ))?;
    Cidr::new(address, route.header.destination_prefix_length.into())
}

/// The interfaces of a default route that applies to every packet. Default routes in the tables of
/// policy routing apply to some packets only.
pub fn defaults(route: &RouteMessage) -> Vec<u32> {
    let header = &route.header;
    let table = route
        .attributes
        .iter()
        .find_map(only!(RouteAttribute::Table(table) => *table));
    let everybodys = matches!(
        table.unwrap_or(header.table.into()),
        TABLE_MAIN | RT_TABLE_DEFAULT
    );
    if header.kind != RouteType::Unicast || header.destination_prefix_length != 0 || !everybodys {
        return vec![];
    }
    let mut through = Vec::new();
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(ifindex) => through.push(*ifindex),
            RouteAttribute::MultiPath(hops) => {
                through.extend(hops.iter().map(|hop| hop.interface_index));
            }
            _ => {}
        }
    }
    through
}

const TABLE_MAIN: u32 = RouteHeader::RT_TABLE_MAIN as u32;
/// linux/rtnetlink.h
const RT_TABLE_DEFAULT: u32 = 253;

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
    fn a_route_leads_to_its_addresses_unless_it_refuses_packets_or_is_learnt() {
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
            assert_eq!(
                destination(&route(32, kind, more)),
                Cidr::parse("10.244.1.10/32"),
                "{kind:?} {more:?}"
            );
        }
        let mut learnt = route(32, RouteType::Unicast, &[]);
        learnt.header.flags = RouteFlags::Cloned;
        let refuses = [
            RouteType::BlackHole,
            RouteType::Unreachable,
            RouteType::Prohibit,
            RouteType::Throw,
        ];
        for route in refuses
            .map(|kind| route(32, kind, &[]))
            .into_iter()
            .chain([learnt])
        {
            assert_eq!(destination(&route), None, "{route:?}");
        }
        assert_eq!(
            destination(&route(26, RouteType::Unicast, &[])),
            Cidr::parse("10.244.1.0/26")
        );
    }

    #[test]
    fn a_default_route_counts_only_in_the_tables_for_all_packets() {
        let oif = RouteAttribute::Oif(7);
        let through = |more: &[RouteAttribute]| defaults(&route(0, RouteType::Unicast, more));
        assert_eq!(through(std::slice::from_ref(&oif)), [7]);
        assert_eq!(through(&[oif.clone(), RouteAttribute::Table(253)]), [7]);
        for policy in [100, 255, 70_000] {
            assert_eq!(
                through(&[oif.clone(), RouteAttribute::Table(policy)]),
                [0; 0]
            );
        }
        let hops = [8, 9].map(|ifindex| {
            let mut hop = RouteNextHop::default();
            hop.interface_index = ifindex;
            hop
        });
        assert_eq!(through(&[RouteAttribute::MultiPath(hops.into())]), [8, 9]);
        assert_eq!(
            defaults(&route(0, RouteType::BlackHole, std::slice::from_ref(&oif))),
            [0; 0]
        );
        assert_eq!(defaults(&route(1, RouteType::Unicast, &[oif])), [0; 0]);
    }
}
