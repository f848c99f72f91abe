//! The kernel's tables in full, for `epguard sysdump`.

use super::route::list;
use anyhow::Result;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::packet_route::neighbour::NeighbourMessage;
use rtnetlink::packet_route::route::RouteMessage;
use rtnetlink::packet_route::rule::RuleMessage;

/// Links, addresses, routes, routing rules and neighbours of this network namespace. Each has its messages, or the
/// reason why there are none.
pub async fn tables() -> Vec<(&'static str, Result<Vec<RouteNetlinkMessage>>)> {
    use RouteNetlinkMessage::{GetAddress, GetLink, GetNeighbour, GetRoute, GetRule};
    let requests = [
        ("links", GetLink(LinkMessage::default())),
        ("addresses", GetAddress(AddressMessage::default())),
        ("routes", GetRoute(RouteMessage::default())),
        ("routing-rules", GetRule(RuleMessage::default())),
        ("neighbours", GetNeighbour(NeighbourMessage::default())),
    ];
    let mut tables = Vec::new();
    for (name, request) in requests {
        tables.push((name, list(name, request, Some).await));
    }
    tables
}
