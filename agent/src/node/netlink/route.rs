//! Rtnetlink: typed requests, and the kernel's announcements of changes.

use super::network_change::NetworkChange;
use super::request::{AnswerMessage, NetlinkRequest};
use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use futures::channel::mpsc::UnboundedReceiver;
use rtnetlink::MulticastGroup;
use rtnetlink::packet_core::{
    DecodeError, NLM_F_DUMP, NetlinkMessage, NetlinkPayload, NetlinkSerializable as _,
    ParseableParametrized as _,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::packet_route::neighbour::NeighbourMessage;
use rtnetlink::packet_route::route::RouteMessage;
use rtnetlink::packet_route::rule::RuleMessage;
use rtnetlink::sys::SocketAddr;
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use std::time::Duration;
use std::{io, iter, thread};
use tokio::sync::{mpsc, oneshot};

/// A change, or that the buffer had no room for one.
pub type Announcement = NetlinkPayload<RouteNetlinkMessage>;

/// Announcements in the order in which the kernel sent them.
pub struct Announcements(UnboundedReceiver<(NetlinkMessage<RouteNetlinkMessage>, SocketAddr)>);

impl Announcements {
    /// Waits for one, and takes all that have arrived. Safe to cancel.
    pub async fn next(&mut self) -> Result<Vec<Announcement>> {
        let (first, _) = self
            .0
            .next()
            .await
            .context("announcements ended (rtnetlink)")?;
        Ok(iter::once(first.payload).chain(self.drain()).collect())
    }

    /// Takes all that have arrived.
    pub fn drain(&mut self) -> impl Iterator<Item = Announcement> {
        iter::from_fn(|| Some(self.0.try_recv().ok()?.0.payload))
    }
}

/// What is followed.
pub struct Followed<'a> {
    /// Its announcements.
    pub groups: &'a [MulticastGroup],
    /// Its name in errors.
    pub what: &'static str,
    /// The command that shows it.
    pub see: &'static str,
}

/// How long to wait after a failure before the kernel is asked again.
const RETRY: Duration = Duration::from_secs(1);

impl Followed<'_> {
    /// Passes the announcements to `run` until it ends. Errors: the kernel cannot be followed.
    ///
    /// Dumps have sockets of their own: an overrun can lose announcements, never an answer to a
    /// dump.
    pub async fn follow(&self, run: impl AsyncFnOnce(Announcements) -> Result<()>) -> Result<()> {
        let (subscription, _, announcements) = rtnetlink::new_multicast_connection(self.groups)
            .with_context(|| format!("cannot subscribe to changes of {} (rtnetlink)", self.what))?;
        tokio::select! {
            biased;
            // When `run` goes on after it yielded, it finds all that was announced before.
            () = subscription => bail!("the kernel closed the subscription to {} (rtnetlink)", self.what),
            result = run(Announcements(announcements)) => result,
        }
    }

    /// Logs why the kernel cannot be followed, and waits.
    pub async fn wait_after(&self, error: &anyhow::Error) {
        tracing::error!(
            error = format!("{error:#}"),
            "cannot follow the node's {}, so nothing is denied as terminated; trying again (see `{}`, \
             /proc/net/netlink and the agent's memory)",
            self.what,
            self.see
        );
        tokio::time::sleep(RETRY).await;
    }
}

/// Sends events in their order. False if the receiver was dropped.
pub async fn send_all(
    tx: &mpsc::Sender<NetworkChange>,
    events: impl IntoIterator<Item = NetworkChange>,
) -> bool {
    for event in events {
        if tx.send(event).await.is_err() {
            return false;
        }
    }
    true
}

type Parsed = Result<RouteNetlinkMessage, DecodeError>;

/// Reads an answer.
pub fn parsed(message: &AnswerMessage<'_>) -> Parsed {
    RouteNetlinkMessage::parse_with_param(message.payload(), message.message_type())
}

/// All answers to a request, with flags as for [`NetlinkRequest::new`].
///
/// Errors: the kernel's; an answer that cannot be read.
pub fn ask(request: &RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
    let answers: Vec<Parsed> = raw(request, flags).ask(take)?;
    let answers: Result<_, _> = answers.into_iter().collect();
    answers.map_err(io::Error::other)
}

/// Entries of a table of the kernel.
pub struct KernelTable<T> {
    /// Those that can be read.
    pub entries: Vec<T>,
    /// Whether these are all.
    pub is_whole: bool,
}

/// What `pick` takes of all entries of a table, by a request such as
/// [`RouteNetlinkMessage::GetLink`]. `what` names them in errors.
pub async fn list<T>(
    what: &str,
    request: RouteNetlinkMessage,
    pick: impl Fn(RouteNetlinkMessage) -> Option<T>,
) -> Result<KernelTable<T>> {
    let request = raw(&request, NLM_F_DUMP);
    // On a thread of its own, so that announcements are received meanwhile. A runtime would panic
    // where there is none.
    let (answer, answers) = oneshot::channel();
    let answers = thread::Builder::new()
        .name("netlink-dump".into())
        .spawn(move || answer.send(request.ask(take)))
        .map(|_| answers);
    let answers = async { answers?.await.map_err(io::Error::other)? }.await;
    Ok(readable(
        what,
        answers.with_context(|| format!("cannot list {what} (rtnetlink)"))?,
        pick,
    ))
}

/// Entries that cannot be read are logged and left out: one strange interface must not hide the
/// others.
pub fn readable<T>(
    what: &str,
    answers: Vec<Parsed>,
    pick: impl Fn(RouteNetlinkMessage) -> Option<T>,
) -> KernelTable<T> {
    let mut entries = Vec::new();
    let mut is_whole = true;
    for answer in answers {
        match answer {
            Ok(answer) => entries.extend(pick(answer)),
            Err(error) => {
                is_whole = false;
                tracing::error!(
                    %error,
                    "cannot read one of the {what} that the kernel lists (rtnetlink)"
                );
            }
        }
    }
    KernelTable { entries, is_whole }
}

/// Links, addresses, routes, routing rules and neighbours of this network namespace in full, for
/// `epguard sysdump`. Each has its messages, or the reason why there are none.
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
        tables.push((
            name,
            list(name, request, Some).await.map(|table| table.entries),
        ));
    }
    tables
}

fn take(answers: &mut Vec<Parsed>, message: &AnswerMessage<'_>) {
    answers.push(parsed(message));
}

fn raw(request: &RouteNetlinkMessage, flags: u16) -> NetlinkRequest {
    let mut body = vec![0; request.buffer_len()];
    request.serialize(&mut body);
    NetlinkRequest::new(NETLINK_ROUTE, request.message_type(), flags, &body)
}
