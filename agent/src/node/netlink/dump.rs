//! Complete dumps of the kernel's tables at one moment, or an error. An incomplete dump would show existing entries
//! as absent.

use anyhow::{Context as _, anyhow, bail, ensure};
use futures::StreamExt as _;
use rtnetlink::Handle;
use rtnetlink::packet_core::{NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::proto::Connection;

/// Most attempts at a dump. A change during a dump spoils it, but that does not happen so many times in a row.
const ATTEMPTS: u32 = 10;

/// A socket for dumps. The kernel refuses a second one before the first has ended (EBUSY).
pub fn connect() -> anyhow::Result<(Connection<RouteNetlinkMessage>, Handle)> {
    let (mut connection, handle, _) =
        rtnetlink::new_connection().context("cannot open a netlink socket (NETLINK_ROUTE)")?;
    // Without this option, an aborted dump cannot be distinguished from a complete one.
    connection.set_forward_done(true);
    Ok((connection, handle))
}

/// All answers to a request such as [`RouteNetlinkMessage::GetLink`].
pub async fn dump(handle: &Handle, request: RouteNetlinkMessage) -> anyhow::Result<Vec<RouteNetlinkMessage>> {
    for _ in 0..ATTEMPTS {
        if let Some(answers) = attempt(handle, request.clone()).await? {
            return Ok(answers);
        }
    }
    bail!("interrupted by changes {ATTEMPTS} times in a row");
}

/// One attempt at a dump. None if something changed meanwhile.
async fn attempt(
    handle: &Handle,
    request: RouteNetlinkMessage,
) -> anyhow::Result<Option<Vec<RouteNetlinkMessage>>> {
    let mut request = NetlinkMessage::from(request);
    request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut stream = handle.clone().request(request)?;
    let (mut answers, mut consistent) = (Vec::new(), true);
    while let Some(answer) = stream.next().await {
        consistent &= answer.header.flags & NLM_F_DUMP_INTR == 0;
        match answer.payload {
            NetlinkPayload::InnerMessage(message) => answers.push(message),
            NetlinkPayload::Done(done) => {
                let error = std::io::Error::from_raw_os_error(done.code.saturating_neg());
                ensure!(done.code == 0, "the kernel broke off: {error}");
                return Ok(consistent.then_some(answers));
            }
            NetlinkPayload::Error(error) => return Err(error.to_io().into()),
            _ => {}
        }
    }
    Err(anyhow!("the answer has no end"))
}
