//! Requests of the changes after a resourceVersion: a stream, and a short one that is a probe.

use super::collection::Collection;
use super::freshness_check::Probe;
use super::line::Line;
use super::request_error::RequestError;
use epguard_core::facts::Object;
use futures::{AsyncBufReadExt, StreamExt, io::AsyncBufRead};
use kube::{Client, api::WatchParams, core};
use std::{pin::pin, time::Duration};
use tokio::time::{Instant, timeout};

/// Longest life of a probe in seconds; the bookmark comes after one, and the server's timers may
/// add another.
const PROBE: u32 = 3;
/// Longest wait for a probe.
const PROBED_WITHIN: Duration = Duration::from_secs(20);

/// Asks for the changes after a version, for so many seconds; without one, all existing objects
/// come first.
pub(super) async fn request_changes(
    client: &Client,
    collection: &Collection,
    after: Option<u64>,
    seconds: u32,
) -> Result<impl AsyncBufRead + use<>, RequestError> {
    let params = WatchParams {
        field_selector: collection.fields.clone(),
        send_initial_events: after.is_none(),
        ..WatchParams::default().timeout(seconds)
    };
    let version = after.map(|version| version.to_string()).unwrap_or_default();
    let http = core::Request::new(&*collection.path).watch(&params, &version)?;
    Ok(client.request_stream(http).await?)
}

/// Watches the changes after a resourceVersion, up to the bookmark that a server sends 2 s before a
/// watch times out (`cache_watcher.go:nextBookmarkTime`).
pub(super) async fn probe<O: Object>(
    client: Client,
    collection: Collection,
    after: u64,
) -> Result<Probe, RequestError> {
    timeout(PROBED_WITHIN, read_probe::<O>(client, collection, after)).await?
}

async fn read_probe<O: Object>(
    client: Client,
    collection: Collection,
    after: u64,
) -> Result<Probe, RequestError> {
    let changes = request_changes(&client, &collection, Some(after), PROBE).await?;
    let mut lines = pin!(changes.lines());
    let mut first = None;
    let mut last = after;
    while let Some(text) = lines.next().await {
        let line = Line::<O>::parse(text?.as_bytes()).map_err(RequestError::unreadable_answer)?;
        match line {
            Line::Object(_, entry) => {
                if first.is_none() {
                    first = Some((entry.version, Instant::now()));
                }
                last = last.max(entry.version);
            }
            Line::Bookmark { version, .. } => {
                return Ok(Probe {
                    first,
                    last,
                    through: version,
                });
            }
            Line::Error(status) => return Err(RequestError::Refused(status)),
        }
    }
    Ok(Probe {
        first,
        last,
        through: last,
    })
}
