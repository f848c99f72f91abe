//! Follows the kernel: whatever it announces, what is there is read anew and compared with what was told.
//!
//! Reading anew costs a millisecond and makes a lost notification (ENOBUFS), an interrupted dump and the order of
//! messages harmless: any change after a dump began is announced after it, and causes the next one.

use super::{Event, Interface};
use anyhow::{Context as _, anyhow, bail};
use epguard_common::Addr;
use futures::channel::mpsc::UnboundedReceiver;
use futures::{StreamExt as _, TryStreamExt as _};
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::LinkExtentMask;
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::SocketAddr;
use rtnetlink::{Handle, MulticastGroup};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tokio::sync::mpsc;

type Announcements = UnboundedReceiver<(NetlinkMessage<RouteNetlinkMessage>, SocketAddr)>;

/// Tells all interfaces and addresses of the calling thread's network namespace, [`Event::Settled`], then every change.
///
/// Returns when the receiver is dropped; an error says that the kernel cannot be followed any more.
pub async fn follow(tx: mpsc::Sender<Event>) -> anyhow::Result<()> {
    let groups = [
        MulticastGroup::Link,
        MulticastGroup::Ipv4Ifaddr,
        MulticastGroup::Ipv6Ifaddr,
    ];
    // Subscribed before the first dump, and apart from it: an overrun can cost announcements, never an answer.
    let (subscription, _, announcements) = rtnetlink::new_multicast_connection(&groups)
        .context("cannot subscribe to changes of network interfaces (rtnetlink)")?;
    let (requests, handle, _) =
        rtnetlink::new_connection().context("cannot open a socket to list network interfaces (rtnetlink)")?;
    tokio::select! {
        () = subscription => bail!("the kernel closed the subscription to network interfaces (rtnetlink); restart the agent"),
        () = requests => bail!("the kernel closed the socket that lists network interfaces (rtnetlink); restart the agent"),
        result = compare(&handle, announcements, &tx) => result,
    }
}

/// Until nobody listens: read, tell the difference, wait.
async fn compare(
    handle: &Handle,
    mut announcements: Announcements,
    tx: &mpsc::Sender<Event>,
) -> anyhow::Result<()> {
    let mut told = Told::default();
    let mut deleted = BTreeSet::new();
    loop {
        let mut events = told.interfaces(interfaces(handle).await?, &deleted);
        events.extend(told.addresses(addresses(handle).await?));
        for event in events {
            if tx.send(event).await.is_err() {
                return Ok(());
            }
        }
        deleted = tokio::select! {
            deleted = announced(&mut announcements) => deleted?,
            () = tx.closed() => return Ok(()),
        };
    }
}

/// Waits for an announcement and takes all that are there; the interfaces that they call deleted.
async fn announced(announcements: &mut Announcements) -> anyhow::Result<BTreeSet<u32>> {
    let first = announcements.next().await;
    let (first, _) =
        first.ok_or_else(|| anyhow!("announcements of network interfaces ended; restart the agent"))?;
    let mut deleted = BTreeSet::from_iter(deletion(&first));
    while let Ok((message, _)) = announcements.try_recv() {
        deleted.extend(deletion(&message));
    }
    Ok(deleted)
}

/// A port that leaves a bridge is announced as deleted too, in the bridge's address family.
fn deletion(message: &NetlinkMessage<RouteNetlinkMessage>) -> Option<u32> {
    match &message.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link))
            if link.header.interface_family == AddressFamily::Unspec =>
        {
            Some(link.header.index)
        }
        _ => None,
    }
}

/// What the receiver knows.
#[derive(Default)]
struct Told {
    interfaces: BTreeMap<u32, Interface>,
    addresses: Option<BTreeSet<Addr>>,
}

impl Told {
    /// The way to `now`. A deleted interface goes even if its number is there again.
    fn interfaces(&mut self, now: BTreeMap<u32, Interface>, deleted: &BTreeSet<u32>) -> Vec<Event> {
        let stays = |old: &Interface| {
            !deleted.contains(&old.ifindex) && now.get(&old.ifindex).is_some_and(|new| new.same_role(old))
        };
        let gone = self.interfaces.values().filter(|old| !stays(old));
        let mut events: Vec<_> = gone.map(|old| Event::Gone { ifindex: old.ifindex }).collect();
        let new = now
            .values()
            .filter(|new| !self.interfaces.get(&new.ifindex).is_some_and(stays));
        events.extend(new.cloned().map(Event::Appeared));
        self.interfaces = now;
        events
    }

    /// The whole list if it changed; the first one settles.
    fn addresses(&mut self, now: BTreeSet<Addr>) -> Vec<Event> {
        if self.addresses.as_ref() == Some(&now) {
            return vec![];
        }
        let list = Event::Addresses(now.iter().copied().collect());
        match self.addresses.replace(now) {
            None => vec![list, Event::Settled],
            Some(_) => vec![list],
        }
    }
}

async fn interfaces(handle: &Handle) -> anyhow::Result<BTreeMap<u32, Interface>> {
    let request = handle
        .link()
        .get()
        .set_filter_mask(AddressFamily::Unspec, vec![LinkExtentMask::SkipStats]);
    let links = request.execute().map_ok(Interface::from);
    links
        .map_ok(|interface| (interface.ifindex, interface))
        .try_collect()
        .await
        .context("cannot list network interfaces (rtnetlink)")
}

async fn addresses(handle: &Handle) -> anyhow::Result<BTreeSet<Addr>> {
    let messages = handle.address().get().execute();
    messages
        .try_filter_map(async |message| Ok(local(&message)))
        .try_collect()
        .await
        .context("cannot list network addresses (rtnetlink)")
}

/// On a point-to-point link `IFA_ADDRESS` is the peer and `IFA_LOCAL` the own address; IPv6 mostly has the former only.
fn local(message: &AddressMessage) -> Option<Addr> {
    let mut found = None;
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(ip) => found = Some(*ip),
            AddressAttribute::Address(ip) => found = found.or(Some(*ip)),
            _ => {}
        }
    }
    found
        .filter(|ip| !is_confined(*ip))
        .map(Addr::from)
        .filter(|addr| addr.is_unicast())
}

/// Means something on this host or link only. Other addresses of `lo` count: routed hosts have theirs there.
fn is_confined(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local(),
    }
}
