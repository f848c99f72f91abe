//! Which addresses the node itself leads to: host routes into its interfaces, and neighbours that answered. And which
//! way leads out of it.
//!
//! As in `follow`, every announcement leads to a dump that is compared with what was told: overruns cost nothing. The
//! kernel's program asks the routes for each packet, so news may wait a moment for more of them.

use super::Event;
use anyhow::{Context as _, anyhow, bail};
use epguard_common::Addr;
use futures::{StreamExt as _, TryStreamExt as _};
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use rtnetlink::{Handle, MulticastGroup, RouteMessageBuilder};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use tokio::sync::mpsc;

/// Neighbours change by the second on a busy node.
const GATHER: Duration = Duration::from_millis(50);

/// Tells every address that the node leads to and the interfaces that lead out of it, then the whole list after every
/// change of it.
///
/// Returns when the receiver is dropped; an error says that the kernel cannot be followed any more.
pub async fn presence(tx: mpsc::Sender<Event>) -> anyhow::Result<()> {
    let groups = [
        MulticastGroup::Neigh,
        MulticastGroup::Ipv4Route,
        MulticastGroup::Ipv6Route,
    ];
    let (subscription, _, mut announcements) = rtnetlink::new_multicast_connection(&groups)
        .context("cannot subscribe to changes of routes (rtnetlink)")?;
    let (requests, handle, _) =
        rtnetlink::new_connection().context("cannot open a socket to list routes (rtnetlink)")?;
    let follow = async {
        let mut told = Seen::default();
        loop {
            for event in told.news(seen(&handle).await?) {
                if tx.send(event).await.is_err() {
                    return Ok(());
                }
            }
            tokio::select! {
                news = announcements.next() => news.ok_or_else(|| anyhow!("announcements of routes ended; restart the agent"))?,
                () = tx.closed() => return Ok(()),
            };
            tokio::time::sleep(GATHER).await;
            while announcements.try_recv().is_ok() {}
        }
    };
    tokio::select! {
        () = subscription => bail!("the kernel closed the subscription to routes (rtnetlink); restart the agent"),
        () = requests => bail!("the kernel closed the socket that lists routes (rtnetlink); restart the agent"),
        result = follow => result,
    }
}

/// What a look at the node shows.
#[derive(Default)]
struct Seen {
    held: Option<BTreeSet<Addr>>,
    defaults: Option<BTreeSet<u32>>,
}

impl Seen {
    /// The way to `now`.
    fn news(&mut self, now: Self) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(defaults) = now.defaults.clone().filter(|_| self.defaults != now.defaults) {
            events.push(Event::Defaults(defaults));
        }
        if let Some(held) = now.held.as_ref().filter(|_| self.held != now.held) {
            events.push(Event::Held(held.iter().copied().collect()));
        }
        *self = now;
        events
    }
}

async fn seen(handle: &Handle) -> anyhow::Result<Seen> {
    let mut routes = routes(handle, RouteMessageBuilder::<Ipv4Addr>::new().build()).await?;
    routes.extend(self::routes(handle, RouteMessageBuilder::<Ipv6Addr>::new().build()).await?);
    let ports = Ports::from_iter(neighbours(handle, AddressFamily::Bridge).await?);
    let answered = neighbours(handle, AddressFamily::Unspec).await?;
    let pods = routes.iter().filter_map(pod_of_route);
    let neighbours = answered
        .iter()
        .filter_map(|neighbour| that_answered(neighbour, &ports));
    Ok(Seen {
        held: Some(pods.chain(neighbours).collect()),
        defaults: Some(routes.iter().filter_map(default_through).collect()),
    })
}

/// One dump at a time: the kernel refuses a second one on the same socket (EBUSY).
async fn routes(handle: &Handle, family: RouteMessage) -> anyhow::Result<Vec<RouteMessage>> {
    let routes = handle.route().get(family).execute();
    routes
        .try_collect()
        .await
        .context("cannot list routes (rtnetlink)")
}

async fn neighbours(handle: &Handle, family: AddressFamily) -> anyhow::Result<Vec<NeighbourMessage>> {
    let neighbours = handle.neighbours().get().set_address_family(family).execute();
    neighbours
        .try_collect()
        .await
        .context("cannot list neighbours (rtnetlink)")
}

/// The one address that a route straight into an interface leads to, in any table.
fn pod_of_route(route: &RouteMessage) -> Option<Addr> {
    let mut destination = None;
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(ip)) => destination = Some(IpAddr::from(*ip)),
            RouteAttribute::Destination(RouteAddress::Inet6(ip)) => destination = Some(IpAddr::from(*ip)),
            RouteAttribute::Gateway(_) | RouteAttribute::Via(_) => return None,
            _ => {}
        }
    }
    let destination = destination?;
    let whole = if destination.is_ipv4() { 32 } else { 128 };
    let leads = route.header.kind == RouteType::Unicast && route.header.destination_prefix_length == whole;
    leads
        .then(|| Addr::from(destination))
        .filter(|addr| addr.is_unicast())
}

/// The interface of a default route.
fn default_through(route: &RouteMessage) -> Option<u32> {
    let is_default = route.header.kind == RouteType::Unicast && route.header.destination_prefix_length == 0;
    let through = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(ifindex) => Some(*ifindex),
        _ => None,
    });
    through.filter(|_| is_default)
}

/// Which link-layer addresses lie behind the ports of each bridge: a bridge forgets those of a port that is gone at
/// once, its neighbour table does not.
#[derive(Default)]
struct Ports {
    bridges: BTreeSet<u32>,
    stations: BTreeSet<(u32, Vec<u8>)>,
}

impl FromIterator<NeighbourMessage> for Ports {
    fn from_iter<T: IntoIterator<Item = NeighbourMessage>>(entries: T) -> Self {
        let mut ports = Self::default();
        for entry in entries {
            let bridge = entry.attributes.iter().find_map(|attribute| match attribute {
                NeighbourAttribute::Controller(bridge) => Some(*bridge),
                _ => None,
            });
            if let (Some(bridge), Some(address)) = (bridge, link_address(&entry)) {
                ports.bridges.insert(bridge);
                ports.stations.insert((bridge, address));
            }
        }
        ports
    }
}

impl Ports {
    /// Whether a neighbour lies behind some port; true on what is no bridge.
    fn lead_to(&self, neighbour: &NeighbourMessage) -> bool {
        let interface = neighbour.header.ifindex;
        let station = link_address(neighbour).map(|address| (interface, address));
        !self.bridges.contains(&interface) || station.is_none_or(|station| self.stations.contains(&station))
    }
}

fn link_address(neighbour: &NeighbourMessage) -> Option<Vec<u8>> {
    neighbour.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(address) => Some(address.clone()),
        _ => None,
    })
}

/// The address of a neighbour that has a link-layer address, fresh or not.
fn that_answered(neighbour: &NeighbourMessage, ports: &Ports) -> Option<Addr> {
    let known = matches!(
        neighbour.header.state,
        NeighbourState::Reachable
            | NeighbourState::Stale
            | NeighbourState::Delay
            | NeighbourState::Probe
            | NeighbourState::Permanent
    );
    let address = neighbour.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => Some(IpAddr::from(*ip)),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => Some(IpAddr::from(*ip)),
        _ => None,
    });
    address
        .filter(|_| known && ports.lead_to(neighbour))
        .map(Addr::from)
        .filter(|addr| addr.is_unicast())
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Ipv4Addr = Ipv4Addr::new(10, 244, 1, 10);

    fn route(prefix: u8, kind: RouteType, more: &[RouteAttribute]) -> Option<Addr> {
        let mut route = RouteMessage::default();
        route.header.destination_prefix_length = prefix;
        route.header.kind = kind;
        route.attributes = vec![RouteAttribute::Destination(RouteAddress::Inet(X))];
        route.attributes.extend_from_slice(more);
        pod_of_route(&route)
    }

    #[test]
    fn only_a_host_route_into_an_interface_shows_a_pod() {
        assert_eq!(route(32, RouteType::Unicast, &[]), Some(X.into()));
        assert_eq!(route(24, RouteType::Unicast, &[]), None);
        assert_eq!(route(32, RouteType::BlackHole, &[]), None);
        let gateway = RouteAttribute::Gateway(RouteAddress::Inet(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(route(32, RouteType::Unicast, &[gateway]), None);
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
    fn only_a_neighbour_that_answered_shows_somebody() {
        let ports = Ports::default();
        assert_eq!(
            that_answered(&neighbour(NeighbourState::Stale), &ports),
            Some(X.into())
        );
        assert_eq!(that_answered(&neighbour(NeighbourState::Failed), &ports), None);
        assert_eq!(
            that_answered(&neighbour(NeighbourState::Incomplete), &ports),
            None
        );
    }

    #[test]
    fn a_neighbour_on_a_bridge_whose_port_is_gone_shows_nobody() {
        let station = |address: u8| {
            let mut entry = NeighbourMessage::default();
            entry.header.ifindex = 9;
            entry.attributes = vec![
                NeighbourAttribute::LinkLayerAddress(vec![address; 6]),
                NeighbourAttribute::Controller(7),
            ];
            entry
        };
        let stale = neighbour(NeighbourState::Stale);
        assert_eq!(
            that_answered(&stale, &Ports::from_iter([station(2), station(3)])),
            Some(X.into())
        );
        assert_eq!(that_answered(&stale, &Ports::from_iter([station(3)])), None);
    }
}
