//! Requests beside a stream: consistent lists of everything, in pages, and the lists and probes that
//! [`confirm`](super::confirm) needs.

use super::Clock;
use super::collection::{Collection, Target};
use super::failure::{Failure, Request};
use super::line::Line;
use super::protocol::Step;
use super::wire::{Entry, Page, describe};
use epguard_core::facts::{Ignored, Name, Object};
use futures::{AsyncBufReadExt, AsyncReadExt, StreamExt};
use kube::api::{ListParams, WatchParams};
use kube::{Client, core};
use std::{pin::pin, time::Duration};
use tokio::time::timeout;

/// Longest silence of a stream: longer than a bookmark's minute. A connection as silent as that is dead, though TCP
/// may not detect it for long.
pub(super) const SILENCE: Duration = Duration::from_secs(90);

/// How much a list may take.
pub(super) struct Limits {
    /// Objects in a page; none: all of them.
    page: Option<u32>,
    requests: usize,
    /// Octets of a page.
    octets: u64,
    /// Whether larger pages are asked for in smaller ones.
    shrinks: bool,
    /// The time for each page.
    patience: Duration,
}

/// Pages of all objects have 500, as in client-go.
pub(super) const WHOLE: Limits = Limits {
    page: Some(500),
    requests: usize::MAX,
    octets: u64::MAX,
    shrinks: false,
    patience: SILENCE,
};
/// All objects in one answer, which no later request can miss.
pub(super) const UNPAGED: Limits = Limits { page: None, ..WHOLE };
/// All pods of this node, which no other agent asks for.
pub(super) const OF_NODE: Limits = Limits {
    requests: 150,
    shrinks: true,
    ..NARROW
};
/// A narrow list of more stays unanswered: any tenant can cause it in all agents at once.
pub(super) const NARROW: Limits = Limits {
    page: Some(100),
    requests: 20,
    octets: 16 << 20,
    shrinks: false,
    patience: ANSWERED_WITHIN,
};
/// Most objects that are listed to confirm a watch by their resourceVersions. Of more objects, none is listed.
const FEW: u32 = 10;
/// Longest life of a probe in seconds; the bookmark comes after one, and the server's timers may add another.
const PROBE: u32 = 3;
/// Longest wait for a confirmation, or for a page of a narrow list: a later one is worthless, or is requested again.
pub(super) const ANSWERED_WITHIN: Duration = Duration::from_secs(20);

/// A complete list.
#[derive(Debug)]
pub(super) struct Listed<O> {
    pub(super) version: u64,
    /// When the list was asked for, of `CLOCK_BOOTTIME`: it holds every earlier change.
    pub(super) sent: Duration,
    /// The newest resourceVersion of an object; 0 without any.
    pub(super) newest: u64,
    pub(super) objects: Vec<(Name, O)>,
    /// Names of objects that don't parse.
    pub(super) unreadable: Vec<Name>,
    /// How many objects exist, with those that don't parse.
    pub(super) count: usize,
    /// Objects, and annotations of objects, that don't parse, and why.
    pub(super) skipped: Vec<(String, anyhow::Error)>,
}

/// The content of a consistent list of few objects, or of none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Glimpse {
    /// When the list was asked for, of `CLOCK_BOOTTIME`.
    pub(super) sent: Duration,
    /// The newest resourceVersion that the watch had shown then.
    pub(super) seen: u64,
    /// The list's resourceVersion.
    pub(super) version: u64,
    /// The newest of its objects' resourceVersions; 0 without any.
    pub(super) newest: u64,
    /// How many objects exist, if the list shows them all.
    pub(super) objects: Option<usize>,
    /// How long to wait for an event of the stream before a probe is sent.
    pub(super) patience: Duration,
}

/// The result of a short watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    /// The resourceVersion of its last event before the bookmark; without an event, the version at which it began.
    pub(super) last: u64,
    /// The bookmark's resourceVersion: no other event happened up to here.
    pub(super) through: u64,
}

/// Lists all objects of a target, which are of the collection's kind. `clock` dates the request.
pub(super) async fn everything<O: Object>(
    client: Client,
    (collection, target): (Collection, Target),
    limits: &Limits,
    clock: Clock,
) -> Result<Listed<O>, Failure> {
    let request = request(&collection, Step::List);
    let sent = clock();
    let (mut objects, mut unreadable, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    let (mut count, mut newest) = (0, 0);
    let mut params = target.params(limits.page);
    for _ in 0..limits.requests {
        let Some(body) = ask(&client, request, &target.path, &params, limits).await? else {
            params.limit = smaller(&params).filter(|_| limits.shrinks);
            if params.limit.is_none() {
                return Err(request.broken(too_large(limits)));
            }
            continue;
        };
        let page = Page::parse(&body).map_err(|error| request.broken(error))?;
        count += page.objects.len();
        for object in &page.objects {
            let json = object.get().as_bytes();
            let mut ignored = Ignored::new();
            let named = || format!("{} {}", O::KIND, describe(json));
            let read = Entry::of(object).and_then(|entry| {
                newest = newest.max(entry.version);
                let read = O::read(json, &mut ignored);
                read.inspect_err(|_| unreadable.push(entry.name.clone()))
                    .map(|object| (entry.name, object))
                    .map_err(Into::into)
            });
            match read {
                Ok(object) => objects.push(object),
                Err(error) => skipped.push((named(), error)),
            }
            skipped.extend(ignored.into_iter().map(|what| (named(), anyhow::anyhow!(what))));
        }
        params.continue_token = page.next;
        if params.continue_token.is_none() {
            return Ok(Listed {
                version: page.version,
                sent,
                newest,
                objects,
                unreadable,
                count,
                skipped,
            });
        }
    }
    Err(request.broken(anyhow::anyhow!(
        "{count} objects are not all: the denials that wait for this list stay pending"
    )))
}

/// Lists all of `objects` if they are few, else the key of no object: `limit=1` would make the server count all of them. Of a
/// single object that is watched, lists only that: the agent may have no right to another. The watch has shown everything up
/// to `seen`. Never uses resourceVersion=0, which a server may answer with any old state.
pub(super) async fn glimpse<O: Object>(
    client: Client,
    collection: Collection,
    (seen, objects): (u64, Option<usize>),
    patience: Duration,
    clock: Clock,
) -> Result<Glimpse, Failure> {
    let request = request(&collection, Step::List);
    let sent = clock();
    let few = objects.and_then(|objects| u32::try_from(objects).ok());
    let one = collection.selector.as_ref().map(|_| 1);
    let few = few.filter(|few| *few <= FEW).or(one);
    let (target, limit) = match few {
        Some(few) => (Target::of(&collection), Some(few + 1)),
        None => (Target::nothing::<O>(), Some(1)),
    };
    let params = target.params(limit);
    let body = ask(&client, request, &target.path, &params, &NARROW).await?;
    let body = body.ok_or_else(|| request.broken(too_large(&NARROW)))?;
    let page = Page::parse(&body).map_err(|error| request.broken(error))?;
    let mut newest = 0;
    for object in &page.objects {
        let entry = Entry::of(object).map_err(|error| request.broken(error))?;
        newest = newest.max(entry.version);
    }
    Ok(Glimpse {
        sent,
        seen,
        version: page.version,
        newest,
        objects: (few.is_some() && page.next.is_none()).then_some(page.objects.len()),
        patience,
    })
}

/// Watches the changes after a resourceVersion, up to the bookmark that a server sends 2 s before a watch times out
/// (`cache_watcher.go:nextBookmarkTime`).
pub(super) async fn probe(client: Client, collection: Collection, after: u64) -> Result<Probe, Failure> {
    let request = request(&collection, Step::Watch(after));
    let params = WatchParams {
        field_selector: collection.selector,
        ..WatchParams::default().timeout(PROBE)
    };
    let http = core::Request::new(request.path)
        .watch(&params, &after.to_string())
        .map_err(|error| request.broken(error))?;
    let read = async {
        let stream = client
            .request_stream(http)
            .await
            .map_err(|error| request.failed(error))?;
        let mut lines = pin!(stream.lines());
        let mut last = after;
        while let Some(line) = lines.next().await {
            let line = line.map_err(|error| request.broken(error))?;
            match Line::parse(line.as_bytes()).map_err(|error| request.broken(error))? {
                Line::Applied(entry) | Line::Deleted(entry) => last = last.max(entry.version),
                Line::Bookmark { version, .. } => {
                    let through = version;
                    return Ok(Probe { last, through });
                }
                Line::Error(status) => return Err(request.refused(&status)),
            }
        }
        let through = last;
        Ok(Probe { last, through })
    };
    timeout(ANSWERED_WITHIN, read)
        .await
        .map_err(|error| request.broken(error))?
}

/// A tenth of the objects of a page; none below one.
fn smaller(params: &ListParams) -> Option<u32> {
    params
        .limit
        .map(|limit| limit / 10)
        .filter(|smaller| *smaller > 0)
}

fn too_large(limits: &Limits) -> anyhow::Error {
    anyhow::anyhow!("an answer of more than {} octets", limits.octets)
}

/// None for an answer that is too large.
async fn ask(
    client: &Client,
    request: Request,
    path: &str,
    params: &ListParams,
    limits: &Limits,
) -> Result<Option<String>, Failure> {
    let http = core::Request::new(path)
        .list(params)
        .map_err(|error| request.broken(error))?;
    let read = async {
        let body = client.request_stream(http).await;
        let body = body.map_err(|error| request.failed(error))?;
        let mut text = String::new();
        let read = body.take(limits.octets).read_to_string(&mut text).await;
        let read = read.map_err(|error| request.broken(error))?;
        let is_whole = (read as u64) < limits.octets;
        Ok(is_whole.then_some(text))
    };
    timeout(limits.patience, read)
        .await
        .map_err(|error| request.broken(error))?
}

fn request(collection: &Collection, step: Step) -> Request {
    let path = collection.path;
    Request { step, path }
}
