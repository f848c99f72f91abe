//! The kernel's announcements of changes.

use anyhow::{Context as _, bail};
use futures::channel::mpsc::UnboundedReceiver;
use rtnetlink::MulticastGroup;
use rtnetlink::packet_core::NetlinkMessage;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::sys::SocketAddr;

/// Announcements in the order in which the kernel sent them.
pub type Announcements = UnboundedReceiver<(NetlinkMessage<RouteNetlinkMessage>, SocketAddr)>;

/// Subscribes to these groups, and passes the announcements to `run`. Dumps have sockets of their own: an overrun can
/// lose announcements, never an answer to a dump. `what` names the groups in errors.
pub async fn subscribed<F>(
    groups: &[MulticastGroup],
    what: &str,
    run: impl FnOnce(Announcements) -> F,
) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let (subscription, _, announcements) = rtnetlink::new_multicast_connection(groups)
        .with_context(|| format!("cannot subscribe to changes of {what} (rtnetlink)"))?;
    tokio::select! {
        // When `run` goes on after it yielded, it finds all that was announced before.
        biased;
        () = subscription => bail!("the kernel closed the subscription to {what} (rtnetlink)"),
        result = run(announcements) => result,
    }
}
