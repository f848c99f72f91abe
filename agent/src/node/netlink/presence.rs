//! The node's routes: which lead to parts of its own ranges, and which interfaces lead out of the
//! node.
//!
//! As in `follow`, an announcement leads to a dump that is compared with what was reported, so
//! overruns do no harm. A route to a part of a range is reported at once, too: whoever announced it
//! waits for packets.

use super::evidence::{defaults, destination};
use super::network_change::NetworkChange;
use super::route::{Announcement, Announcements, Followed, KernelTable, list, send_all};
use epguard_core::facts::{Cidr, Routes};
use rtnetlink::MulticastGroup;
use rtnetlink::packet_core::NetlinkPayload;
use rtnetlink::packet_route::route::RouteMessage;
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// Shortest pause after a dump.
const GATHER: Duration = Duration::from_millis(50);

/// The pause after a dump, in units of the dump's duration: dumps take at most a tenth of the time
/// for any number of routes, within the limit of [`LONGEST_REST`].
const REST: u32 = 9;

/// Longest pause. On a busy machine a dump takes long because it waits for other work.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// How often everything is read without an announcement, while ranges are asked about.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Sends the interfaces that lead out of the node and, while ranges are `asked` about, the routes
/// to parts of them: all of these after every change, new ones at once.
///
/// Returns when the receiver is dropped. While the kernel cannot be followed, reports the routes as
/// unknown and retries.
pub async fn presence(tx: mpsc::Sender<NetworkChange>, asked: watch::Receiver<Vec<Cidr>>) {
    let groups = [MulticastGroup::Ipv4Route, MulticastGroup::Ipv6Route];
    let subject = Followed {
        groups: &groups,
        what: "routes",
        see: "ip route",
    };
    let mut sent = Seen::default();
    while let Err(error) = subject
        .follow(async |it| send_seen(&mut sent, &tx, asked.clone(), it).await)
        .await
    {
        let nothing = Seen {
            routes: None,
            defaults: sent.defaults.clone(),
        };
        if !sent.send_changes(nothing, &tx).await {
            return;
        }
        subject.wait_after(&error).await;
    }
}

/// Reads, sends the difference, waits, and repeats until the receiver is dropped.
async fn send_seen(
    sent: &mut Seen,
    tx: &mpsc::Sender<NetworkChange>,
    mut asked: watch::Receiver<Vec<Cidr>>,
    mut announcements: Announcements,
) -> anyhow::Result<()> {
    loop {
        let begun = Instant::now();
        let ranges = asked.borrow_and_update().clone();
        let mut now = Seen::read(&ranges).await?;
        // Lets the subscription run: what changed during the dump has been announced by now.
        tokio::task::yield_now().await;
        let during: Vec<Announcement> = announcements.drain().collect();
        if let (Some(now), Some(before)) = (&mut now.routes, &sent.routes) {
            // A route that the dump missed may be there.
            if !during.is_empty() {
                now.add(before.parts().iter().copied());
            }
            now.add(during.iter().filter_map(announced));
        }
        if !sent.send_changes(now, tx).await {
            return Ok(());
        }
        let rested = begun + (begun.elapsed() * (REST + 1)).clamp(GATHER, LONGEST_REST);
        let mut has_changed = !during.is_empty();
        loop {
            tokio::select! {
                news = announcements.next() => {
                    let came = news?.iter().filter_map(announced).collect();
                    let is_sent = sent.send_announced(came, tx).await;
                    if !is_sent {
                        return Ok(());
                    }
                    has_changed = true;
                }
                () = sleep_until(rested), if has_changed => break,
                () = sleep(LOOK_AGAIN), if !ranges.is_empty() => break,
                Ok(()) = asked.changed() => break,
                () = tx.closed() => return Ok(()),
            }
        }
    }
}

/// The addresses that the node has a route to from now on, by an announcement.
fn announced(news: &Announcement) -> Option<Cidr> {
    match news {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) => destination(route),
        _ => None,
    }
}

/// The result of one reading of the node; `None` for each part that is not known.
#[derive(Default)]
struct Seen {
    routes: Option<Routes>,
    defaults: Option<BTreeSet<u32>>,
}

impl Seen {
    /// Reads the routes of both families.
    async fn read(ranges: &[Cidr]) -> anyhow::Result<Self> {
        let mut all = routes(AddressFamily::Inet).await?;
        let of_6 = routes(AddressFamily::Inet6).await?;
        all.entries.extend(of_6.entries);
        all.is_whole &= of_6.is_whole;
        let defaults = all.entries.iter().flat_map(defaults).collect();
        Ok(Self {
            routes: to_parts(ranges, &all),
            defaults: Some(defaults),
        })
    }

    /// Sends the events that lead to `now`. False if the receiver was dropped.
    async fn send_changes(&mut self, now: Self, tx: &mpsc::Sender<NetworkChange>) -> bool {
        let mut events = Vec::new();
        if self.defaults != now.defaults
            && let Some(defaults) = now.defaults.clone()
        {
            events.push(NetworkChange::Defaults(defaults));
        }
        if self.routes != now.routes {
            events.push(NetworkChange::Routes(now.routes.clone()));
        }
        *self = now;
        send_all(tx, events).await
    }

    /// Sends new routes. False if the receiver was dropped.
    async fn send_announced(&mut self, came: Vec<Cidr>, tx: &mpsc::Sender<NetworkChange>) -> bool {
        let Some(routes) = &mut self.routes else {
            return true;
        };
        if came.is_empty() {
            return true;
        }
        let before = routes.clone();
        routes.add(came.iter().copied());
        let events = (*routes != before).then_some(NetworkChange::Announced(came));
        send_all(tx, events).await
    }
}

/// The routes to parts of the ranges; none if there are no ranges, or an entry cannot be read, for
/// it may lead anywhere.
fn to_parts(ranges: &[Cidr], routes: &KernelTable<RouteMessage>) -> Option<Routes> {
    if ranges.is_empty() || !routes.is_whole {
        return None;
    }
    let destinations = routes.entries.iter().filter_map(destination);
    Some(Routes::new(ranges, destinations))
}

async fn routes(family: AddressFamily) -> anyhow::Result<KernelTable<RouteMessage>> {
    let mut request = RouteMessage::default();
    request.header.address_family = family;
    let taken = only!(RouteNetlinkMessage::NewRoute(route) => route);
    list("routes", RouteNetlinkMessage::GetRoute(request), taken).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::netlink::route::readable;
    use rtnetlink::packet_core::{NetlinkSerializable as _, ParseableParametrized as _};
    use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteType};

    /// The table of one host route and of so many octets of another one.
    fn routes(octets: usize) -> KernelTable<RouteMessage> {
        let mut route = RouteMessage::default();
        route.header.address_family = AddressFamily::Inet;
        route.header.kind = RouteType::Unicast;
        route.header.destination_prefix_length = 32;
        route
            .attributes
            .push(RouteAttribute::Destination(RouteAddress::Inet(
                [10, 244, 1, 10].into(),
            )));
        let message = RouteNetlinkMessage::NewRoute(route);
        let mut buffer = vec![0; message.buffer_len()];
        message.serialize(&mut buffer);
        let parse =
            |octets: &[u8]| RouteNetlinkMessage::parse_with_param(octets, message.message_type());
        let answers = vec![parse(&buffer), parse(&buffer[..octets.min(buffer.len())])];
        readable(
            "routes",
            answers,
            only!(RouteNetlinkMessage::NewRoute(route) => route),
        )
    }

    #[test]
    fn routes_to_parts_of_a_range_are_unknown_while_a_route_cannot_be_read_or_no_range_is_asked_about()
     {
        let range = [Cidr::parse("10.244.1.0/24").unwrap()];
        let parts = |ranges: &[Cidr], octets| {
            to_parts(ranges, &routes(octets)).map(|found| found.parts().to_vec())
        };
        assert_eq!(
            parts(&range, usize::MAX),
            Some(vec![Cidr::parse("10.244.1.10/32").unwrap()])
        );
        assert_eq!(parts(&range, 4), None);
        assert_eq!(parts(&[], usize::MAX), None);
    }
}
