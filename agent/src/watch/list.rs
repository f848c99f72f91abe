//! Consistent lists: of everything, in pages, or of one object, which confirms that a watch misses nothing.

use super::failure::{Failure, Request};
use super::protocol::Step;
use super::wire::{Page, describe, version_of};
use crate::clock::boot;
use crate::facts::{Ignored, Object};
use kube::api::ListParams;
use kube::{Client, core};
use std::time::Duration;
use tokio::time::timeout;

/// Objects in a page, as in client-go.
const PAGE: u32 = 500;
/// A confirmation that takes longer is worth nothing any more.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(20);

/// Everything there is.
pub(super) struct Listed<O> {
    pub(super) version: u64,
    /// When it was asked for, of `CLOCK_BOOTTIME`: whatever happened before is in it.
    pub(super) sent: Duration,
    pub(super) objects: Vec<O>,
    /// Objects, and annotations of objects, that don't parse, and why.
    pub(super) skipped: Vec<(String, anyhow::Error)>,
}

/// What a consistent list of one object shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Glimpse {
    /// When it was asked for, of `CLOCK_BOOTTIME`.
    pub(super) sent: Duration,
    /// The newest resourceVersion that the watch had shown then.
    pub(super) seen: u64,
    /// The list's resourceVersion.
    pub(super) version: u64,
    /// The object's; 0 without any.
    pub(super) object: u64,
}

/// Lists everything. `patience` is for each page.
pub(super) async fn everything<O: Object>(
    client: Client,
    selector: Option<String>,
    patience: Duration,
) -> Result<Listed<O>, Failure> {
    let request = request::<O>();
    let sent = boot();
    let (mut objects, mut skipped) = (Vec::new(), Vec::new());
    let mut params = ListParams {
        field_selector: selector,
        ..ListParams::default().limit(PAGE)
    };
    loop {
        let body = ask(&client, request, &params, patience).await?;
        let page = Page::parse(&body).map_err(|error| request.broken(error))?;
        for json in page.objects.iter().map(|object| object.get().as_bytes()) {
            let mut ignored = Ignored::new();
            let named = || format!("{} {}", O::KIND, describe(json));
            match O::read(json, &mut ignored) {
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
                objects,
                skipped,
            });
        }
    }
}

/// Lists one object, of a watch that has shown everything up to `seen`. Never with resourceVersion=0, which a server
/// may answer with anything it remembers.
pub(super) async fn glimpse<O: Object>(
    client: Client,
    selector: Option<String>,
    seen: u64,
) -> Result<Glimpse, Failure> {
    let request = request::<O>();
    let sent = boot();
    let params = ListParams {
        field_selector: selector,
        ..ListParams::default().limit(1)
    };
    let body = ask(&client, request, &params, CONFIRMED_WITHIN).await?;
    let page = Page::parse(&body).map_err(|error| request.broken(error))?;
    let object = page.objects.first().map_or(Ok(0), |object| version_of(object));
    Ok(Glimpse {
        sent,
        seen,
        version: page.version,
        object: object.map_err(|error| request.broken(error))?,
    })
}

async fn ask(
    client: &Client,
    request: Request,
    params: &ListParams,
    patience: Duration,
) -> Result<String, Failure> {
    let http = core::Request::new(request.path)
        .list(params)
        .map_err(|error| request.broken(error))?;
    timeout(patience, client.request_text(http))
        .await
        .map_err(|error| request.broken(error))?
        .map_err(|error| request.failed(error))
}

fn request<O: Object>() -> Request {
    Request {
        step: Step::List,
        path: O::PATH,
    }
}
