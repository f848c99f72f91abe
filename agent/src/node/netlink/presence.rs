//! Which addresses the node leads to, by its routes and neighbours, and which interfaces lead out of the node.
//!
//! As in `follow`, an announcement leads to a dump that is compared with what was reported, so overruns do no harm.
//! The kernel program looks up the routes for each packet, so a change may wait a moment for further ones. While the
//! addresses are not `asked` for, only changes of routes are read, for the default routes.

use super::Event;
use super::evidence::{Ports, defaults, holder, that_answered};
use super::route::{Announcement, Announcements, Subject, Table, list, send_all};
use crate::shared::clock::boot;
use epguard_common::Addr;
use rtnetlink::MulticastGroup;
use rtnetlink::packet_core::NetlinkPayload;
use rtnetlink::packet_route::neighbour::NeighbourMessage;
use rtnetlink::packet_route::route::RouteMessage;
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// Shortest pause after a dump. Neighbours change by the second on a busy node.
const GATHER: Duration = Duration::from_millis(50);

/// The pause after a dump, in units of the dump's duration: dumps take at most a tenth of the time for any number of
/// routes, within the limit of [`LONGEST_REST`].
const REST: u32 = 9;

/// Longest pause. On a busy machine a dump takes long because it waits for other work.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// How often everything is read without an announcement, while the addresses are asked for.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Sends the interfaces that lead out of the node and, while `asked`, every address that the node leads to. Then
/// sends the whole list after every change of it.
///
/// Returns when the receiver is dropped. While the kernel cannot be followed, reports the addresses as unknown and
/// retries.
pub async fn presence(tx: mpsc::Sender<Event>, asked: watch::Receiver<bool>) {
    let groups = [MulticastGroup::Neigh, MulticastGroup::Ipv4Route, MulticastGroup::Ipv6Route];
    let subject = Subject { groups, what: "routes and neighbours", see: "ip route" };
    let mut sent = Seen::default();
    while let Err(error) = subject.follow(async |it| send_seen(&mut sent, &tx, asked.clone(), it).await).await
    {
        let nothing = Seen { held: None, defaults: sent.defaults.clone() };
        if !sent.send_changes(nothing, &tx).await {
            return;
        }
        subject.wait_after(&error).await;
    }
}

/// Reads, sends the difference, waits, and repeats until the receiver is dropped.
async fn send_seen(
    sent: &mut Seen,
    tx: &mpsc::Sender<Event>,
    mut asked: watch::Receiver<bool>,
    mut announcements: Announcements,
) -> anyhow::Result<()> {
    let mut came = BTreeSet::new();
    loop {
        let (begun, as_of) = (Instant::now(), boot());
        let is_asked = *asked.borrow_and_update();
        let mut now = seen(is_asked).await?;
        // Lets the subscription run: what changed during the dump has been announced by now.
        tokio::task::yield_now().await;
        let torn = is_asked && drain(&mut announcements, &mut came);
        if torn {
            now.held = now.held.zip(sent.held.clone()).map(|(now, before)| &now | &before);
        }
        if !sent.send_changes(now, tx).await {
            return Ok(());
        }
        if is_asked && !send_came(&mut came, as_of, tx).await {
            return Ok(());
        }
        let rest = (begun.elapsed() * REST).clamp(GATHER, LONGEST_REST);
        tokio::select! {
            news = announcement(&mut announcements, is_asked, &mut came), if !torn => news?,
            () = std::future::ready(()), if torn => {}
            Ok(()) = asked.changed() => continue,
            () = tokio::time::sleep(LOOK_AGAIN), if is_asked => {}
            () = tx.closed() => return Ok(()),
        }
        tokio::time::sleep(rest).await;
        drain(&mut announcements, &mut came);
        if !is_asked {
            came.clear();
        }
    }
}

/// Sends the addresses that were announced before a dump that began at `as_of`. False if the receiver was dropped.
async fn send_came(came: &mut BTreeSet<Addr>, as_of: Duration, tx: &mpsc::Sender<Event>) -> bool {
    let came: Vec<Addr> = std::mem::take(came).into_iter().collect();
    let announced = (!came.is_empty()).then_some(Event::Announced(came));
    send_all(tx, announced.into_iter().chain([Event::Looked(as_of)])).await
}

/// Waits for an announcement that matters. While the addresses are not asked for, neighbours do not matter.
async fn announcement(
    announcements: &mut Announcements,
    is_asked: bool,
    came: &mut BTreeSet<Addr>,
) -> anyhow::Result<()> {
    loop {
        let news = announcements.next().await?;
        came.extend(news.iter().filter_map(announced).filter(|_| is_asked));
        let is_neighbour = |news: &Announcement| {
            use RouteNetlinkMessage::{DelNeighbour, NewNeighbour};
            matches!(news, NetlinkPayload::InnerMessage(NewNeighbour(_) | DelNeighbour(_)))
        };
        if is_asked || !news.iter().all(is_neighbour) {
            return Ok(());
        }
    }
}

/// Takes all announcements that have arrived. True if there were any.
fn drain(announcements: &mut Announcements, came: &mut BTreeSet<Addr>) -> bool {
    let mut any = false;
    came.extend(announcements.drain().inspect(|_| any = true).filter_map(|news| announced(&news)));
    any
}

/// The address that the node leads to from now on, by an announcement.
fn announced(news: &Announcement) -> Option<Addr> {
    match news {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) => holder(route),
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewNeighbour(neighbour)) => {
            that_answered(neighbour, &Ports::default())
        }
        _ => None,
    }
}

/// The result of one reading of the node; `None` for each part that is not known.
#[derive(Default)]
struct Seen {
    held: Option<BTreeSet<Addr>>,
    defaults: Option<BTreeSet<u32>>,
}

impl Seen {
    /// Sends the events that lead to `now`. False if the receiver was dropped.
    async fn send_changes(&mut self, now: Self, tx: &mpsc::Sender<Event>) -> bool {
        let mut events = Vec::new();
        if let Some(defaults) = now.defaults.clone().filter(|_| self.defaults != now.defaults) {
            events.push(Event::Defaults(defaults));
        }
        if self.held != now.held {
            let held = now.held.as_ref();
            events.push(Event::Held(held.map(|held| held.iter().copied().collect())));
        }
        *self = now;
        send_all(tx, events).await
    }
}

/// Reads routes and neighbours. Neighbours only if `is_asked`: without a request for the addresses, only routes
/// matter.
async fn seen(is_asked: bool) -> anyhow::Result<Seen> {
    let mut all = routes(AddressFamily::Inet).await?;
    let of_6 = routes(AddressFamily::Inet6).await?;
    all.entries.extend(of_6.entries);
    all.is_whole &= of_6.is_whole;
    let mut held = None;
    if is_asked {
        let ports = neighbours(AddressFamily::Bridge).await?;
        held = holders(&all, ports, &neighbours(AddressFamily::Unspec).await?);
    }
    Ok(Seen { held, defaults: Some(all.entries.iter().flat_map(defaults).collect()) })
}

/// The addresses that the node leads to; none if an entry cannot be read, for it may lead to any.
fn holders(
    routes: &Table<RouteMessage>,
    ports: Table<NeighbourMessage>,
    neighbours: &Table<NeighbourMessage>,
) -> Option<BTreeSet<Addr>> {
    let is_whole = routes.is_whole && ports.is_whole && neighbours.is_whole;
    let ports = Ports::from_iter(ports.entries);
    let answered = neighbours.entries.iter().filter_map(|it| that_answered(it, &ports));
    is_whole.then(|| routes.entries.iter().filter_map(holder).chain(answered).collect())
}

async fn routes(family: AddressFamily) -> anyhow::Result<Table<RouteMessage>> {
    let mut request = RouteMessage::default();
    request.header.address_family = family;
    let taken = only!(RouteNetlinkMessage::NewRoute(route) => route);
    list("routes", RouteNetlinkMessage::GetRoute(request), taken).await
}

async fn neighbours(family: AddressFamily) -> anyhow::Result<Table<NeighbourMessage>> {
    let mut request = NeighbourMessage::default();
    request.header.family = family;
    let taken = only!(RouteNetlinkMessage::NewNeighbour(neighbour) => neighbour);
    list("neighbours", RouteNetlinkMessage::GetNeighbour(request), taken).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::netlink::route::readable;
    use rtnetlink::packet_core::{NetlinkSerializable as _, ParseableParametrized as _};
    use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteType};

    const X: Addr = Addr::v4([10, 244, 1, 10]);

    /// The table of one host route and of so many octets of another one.
    fn routes(octets: usize) -> Table<RouteMessage> {
        let mut route = RouteMessage::default();
        route.header.address_family = AddressFamily::Inet;
        route.header.kind = RouteType::Unicast;
        route.header.destination_prefix_length = 32;
        route.attributes.push(RouteAttribute::Destination(RouteAddress::Inet([10, 244, 1, 10].into())));
        let message = RouteNetlinkMessage::NewRoute(route);
        let mut buffer = vec![0; message.buffer_len()];
        message.serialize(&mut buffer);
        let parse = |octets: &[u8]| RouteNetlinkMessage::parse_with_param(octets, message.message_type());
        let answers = vec![parse(&buffer), parse(&buffer[..octets.min(buffer.len())])];
        readable("routes", answers, only!(RouteNetlinkMessage::NewRoute(route) => route))
    }

    #[test]
    fn the_holders_are_unknown_while_a_route_or_a_neighbour_cannot_be_read() {
        let whole = || Table { entries: vec![], is_whole: true };
        let not_whole = || Table { entries: vec![], is_whole: false };
        let held = holders(&routes(usize::MAX), whole(), &whole());
        assert_eq!(held, Some(BTreeSet::from([X])));
        assert_eq!(holders(&routes(4), whole(), &whole()), None);
        assert_eq!(holders(&routes(usize::MAX), not_whole(), &whole()), None);
        assert_eq!(holders(&routes(usize::MAX), whole(), &not_whole()), None);
    }
}
