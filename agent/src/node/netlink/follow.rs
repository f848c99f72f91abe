//! Follows the kernel: after any announcement, reads everything anew and compares it with what was
//! reported.
//!
//! Reading anew costs a millisecond and makes a lost notification (ENOBUFS), an interrupted dump
//! and the order of messages harmless. Any change after a dump began is announced after it, and
//! causes the next dump.

use super::interface::{self, Interface};
use super::network_change::NetworkChange;
use super::route::{Announcement, Announcements, Followed, list, send_all};
use epguard_common::Addr;
use rtnetlink::MulticastGroup;
use rtnetlink::packet_core::NetlinkPayload;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::{LinkAttribute, LinkExtentMask, LinkMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tokio::sync::mpsc;

/// Devices whose addresses are VIPs of Services. The first is of kube-proxy's IPVS mode, which also
/// omits it when it lists addresses that answer NodePorts (`GetAllLocalAddressesExcept` in
/// kubernetes/pkg/proxy/ipvs). The second is of the DNS cache on nodes.
const SERVICE_DEVICES: [&str; 2] = ["kube-ipvs0", "nodelocaldns"];

/// Sends all interfaces and addresses of the calling thread's network namespace,
/// [`NetworkChange::Settled`], then every change.
///
/// Returns when the receiver is dropped. While the kernel cannot be followed, sends
/// [`NetworkChange::Lost`] and retries.
pub async fn follow(tx: mpsc::Sender<NetworkChange>) {
    let groups = [
        MulticastGroup::Link,
        MulticastGroup::Ipv4Ifaddr,
        MulticastGroup::Ipv6Ifaddr,
    ];
    let subject = Followed {
        groups: &groups,
        what: "network interfaces",
        see: "ip link",
    };
    let mut sent = Sent::default();
    while let Err(error) = subject
        .follow(async |it| send_changes(&mut sent, &tx, it).await)
        .await
    {
        sent.lost = true;
        if tx.send(NetworkChange::Lost).await.is_err() {
            return;
        }
        subject.wait_after(&error).await;
    }
}

/// Reads, sends the difference, waits, and repeats until the receiver is dropped.
async fn send_changes(
    sent: &mut Sent,
    tx: &mpsc::Sender<NetworkChange>,
    mut announcements: Announcements,
) -> anyhow::Result<()> {
    let mut announced: Vec<Announcement> = Vec::new();
    loop {
        // Addresses are read first: so an interface is known before its addresses count.
        let addresses = addresses().await?;
        let interfaces = interfaces().await?;
        let own = own_addresses(&interfaces, addresses);
        let mut events = sent.interfaces(interfaces, &deleted(&announced));
        events.extend(sent.addresses(own));
        // The kernel may have announced more than the buffer has room for.
        let is_overrun = announced
            .iter()
            .any(|it| matches!(it, NetlinkPayload::Overrun(_)));
        if std::mem::take(&mut sent.lost) | is_overrun {
            events.push(NetworkChange::Recovered);
        }
        if !send_all(tx, events).await {
            return Ok(());
        }
        announced = tokio::select! {
            announced = announcements.next() => announced?,
            () = tx.closed() => return Ok(()),
        };
    }
}

/// The interfaces that were deleted. A port that leaves a bridge is announced as deleted too, in
/// the bridge's address family: that one is ignored.
fn deleted(announced: &[Announcement]) -> BTreeSet<u32> {
    let deleted = announced.iter().filter_map(only!(
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link))
            if link.header.interface_family == AddressFamily::Unspec => link.header.index
    ));
    deleted.collect()
}

/// What the receiver was sent.
#[derive(Default)]
struct Sent {
    interfaces: BTreeMap<u32, Interface>,
    addresses: Option<BTreeSet<Addr>>,
    /// True after [`NetworkChange::Lost`]: what was sent may be out of date.
    lost: bool,
}

impl Sent {
    /// The events that lead to `now`. A deleted interface is reported as gone even if its number
    /// exists again.
    fn interfaces(
        &mut self,
        now: BTreeMap<u32, Interface>,
        deleted: &BTreeSet<u32>,
    ) -> Vec<NetworkChange> {
        let mut changes = Vec::new();
        let mut stay = BTreeSet::new();
        for old in self.interfaces.values() {
            let ifindex = old.ifindex;
            let new = now.get(&ifindex);
            if !deleted.contains(&ifindex) && new.is_some_and(|new| new.same_role(old)) {
                stay.insert(ifindex);
            } else {
                changes.push(NetworkChange::Gone { ifindex });
            }
        }
        for new in now.values() {
            if !stay.contains(&new.ifindex) {
                changes.push(NetworkChange::Appeared(new.clone()));
            }
        }
        self.interfaces = now;
        changes
    }

    /// The whole list if it changed; [`NetworkChange::Settled`] follows the first one.
    fn addresses(&mut self, now: BTreeSet<Addr>) -> Vec<NetworkChange> {
        if self.addresses.as_ref() == Some(&now) {
            return vec![];
        }
        let list = NetworkChange::Addresses(now.iter().copied().collect());
        let is_first = self.addresses.is_none();
        self.addresses = Some(now);
        if is_first {
            vec![list, NetworkChange::Settled]
        } else {
            vec![list]
        }
    }
}

async fn interfaces() -> anyhow::Result<BTreeMap<u32, Interface>> {
    let mut request = LinkMessage::default();
    let mask = vec![LinkExtentMask::SkipStats];
    request.attributes.push(LinkAttribute::ExtMask(mask));
    let taken = only!(RouteNetlinkMessage::NewLink(link) => Interface::from(link));
    let interfaces = list(
        "network interfaces",
        RouteNetlinkMessage::GetLink(request),
        taken,
    )
    .await?;
    Ok(interface::stacked(interfaces.entries))
}

/// The addresses that are the node's own: those of all devices except [`SERVICE_DEVICES`].
fn own_addresses(
    interfaces: &BTreeMap<u32, Interface>,
    addresses: Vec<(u32, Addr)>,
) -> BTreeSet<Addr> {
    let mut own = BTreeSet::new();
    for (ifindex, address) in addresses {
        let name = interfaces.get(&ifindex).map(|it| it.name.as_str());
        if name.is_none_or(|name| !SERVICE_DEVICES.contains(&name)) {
            own.insert(address);
        }
    }
    own
}

/// All addresses, each with the number of its interface.
async fn addresses() -> anyhow::Result<Vec<(u32, Addr)>> {
    let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    let taken =
        only!(RouteNetlinkMessage::NewAddress(address) => (address.header.index, local(&address)?));
    Ok(list("network addresses", request, taken).await?.entries)
}

/// The address of this node in an address message. On a point-to-point link `IFA_ADDRESS` is the
/// peer and `IFA_LOCAL` the own address; IPv6 mostly has the former only.
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

/// True if the address is valid on this host or link only. Other addresses of `lo` count: routed
/// hosts have theirs there.
fn is_confined(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local(),
    }
}
