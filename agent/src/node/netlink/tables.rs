//! The kernel's tables in full, for `epguard sysdump`.

use super::dump::{connect, dump};
use anyhow::{Context as _, Result};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::packet_route::neighbour::NeighbourMessage;
use rtnetlink::packet_route::route::RouteMessage;
use rtnetlink::packet_route::rule::RuleMessage;

/// Links, addresses, routes, routing rules and neighbours of this network namespace. Each has its messages, or the
/// reason why there are none.
pub async fn tables() -> Vec<(&'static str, Result<Vec<RouteNetlinkMessage>>)> {
    let requests = [
        ("links", RouteNetlinkMessage::GetLink(LinkMessage::default())),
        (
            "addresses",
            RouteNetlinkMessage::GetAddress(AddressMessage::default()),
        ),
        ("routes", RouteNetlinkMessage::GetRoute(RouteMessage::default())),
        (
            "routing-rules",
            RouteNetlinkMessage::GetRule(RuleMessage::default()),
        ),
        (
            "neighbours",
            RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default()),
        ),
    ];
    let mut tables = Vec::new();
    for (name, request) in requests {
        tables.push((
            name,
            table(request)
                .await
                .with_context(|| format!("cannot list {name} (rtnetlink)")),
        ));
    }
    tables
}

async fn table(request: RouteNetlinkMessage) -> Result<Vec<RouteNetlinkMessage>> {
    let (connection, handle) = connect()?;
    tokio::select! {
        () = connection => anyhow::bail!("the kernel closed the socket"),
        answers = dump(&handle, request) => answers,
    }
}
