//! Typed requests of rtnetlink.

use super::request::{Message, Request};
use anyhow::Context as _;
use rtnetlink::packet_core::{DecodeError, NLM_F_DUMP, NetlinkSerializable as _, ParseableParametrized as _};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use std::io;

type Parsed = Result<RouteNetlinkMessage, DecodeError>;

/// Reads an answer.
pub fn parsed(message: &Message<'_>) -> Parsed {
    RouteNetlinkMessage::parse_with_param(message.payload(), message.message_type())
}

/// All answers to a request, with flags as for [`Request::new`].
///
/// Errors: the kernel's; an answer that cannot be read.
pub fn ask(request: &RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
    let answers: Vec<Parsed> = raw(request, flags).ask(take)?;
    let answers: Result<_, _> = answers.into_iter().collect();
    answers.map_err(io::Error::other)
}

/// What `pick` takes of all entries of a table, by a request such as [`RouteNetlinkMessage::GetLink`]. Entries that
/// cannot be read are logged and left out: one strange interface must not hide the others. `what` names them in errors.
pub async fn list<T>(
    what: &str,
    request: RouteNetlinkMessage,
    pick: impl Fn(RouteNetlinkMessage) -> Option<T>,
) -> anyhow::Result<Vec<T>> {
    let answers = raw(&request, NLM_F_DUMP).ask_in_turn(take).await;
    let answers: Vec<Parsed> = answers.with_context(|| format!("cannot list {what} (rtnetlink)"))?;
    let unreadable = |error: &_| tracing::error!(%error, "cannot read one of the {what} that the kernel lists (rtnetlink)");
    let readable = answers.into_iter().filter_map(|answer| answer.inspect_err(unreadable).ok());
    Ok(readable.filter_map(pick).collect())
}

fn take(answers: &mut Vec<Parsed>, message: &Message<'_>) {
    answers.push(parsed(message));
}

fn raw(request: &RouteNetlinkMessage, flags: u16) -> Request {
    let mut body = vec![0; request.buffer_len()];
    request.serialize(&mut body);
    Request::new(NETLINK_ROUTE, request.message_type(), flags, &body)
}
