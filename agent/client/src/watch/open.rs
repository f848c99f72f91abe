//! The state of one open stream, and of the requests beside it.

use super::freshness_check::{FreshnessChecks, Probe};
use super::line::ReceivedObject;
use super::list::Listed;
use super::orders::OrderedLists;
use super::request_error::RequestError;
use epguard_core::facts::{ObjectName, Selection};
use futures::{future::BoxFuture, stream::FuturesUnordered};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// Narrow lists that are requested at the same time.
const NARROW_LISTS_AT_ONCE: usize = 2;

/// The state of an open stream, and of the requests beside it.
pub(super) struct Open<O> {
    /// When the stream was asked for, of `CLOCK_BOOTTIME`.
    pub(super) sent: Duration,
    /// What a streamed list has shown so far; none once it is complete, or for a stream that begins
    /// with changes.
    pub(super) initial: Option<HashMap<ObjectName, ReceivedObject<O>>>,
    pub(super) checks: FreshnessChecks,
    /// Lists that were ordered and have not come.
    pub(super) ordered: OrderedLists,
    /// Those of them that were requested.
    pub(super) narrow: Vec<NarrowList<O>>,
    /// Permits to request narrow lists.
    pub(super) turns: Arc<Semaphore>,
    pub(super) requests: FuturesUnordered<BoxFuture<'static, Finished<O>>>,
}

/// A narrow list beside a stream.
pub(super) struct NarrowList<O> {
    pub(super) selection: Selection,
    /// Objects that the stream has shown since the list was asked for, with their last
    /// resourceVersions.
    pub(super) changed: HashMap<ObjectName, u64>,
    pub(super) listed: Option<Listed<O>>,
}

/// What has ended beside a stream.
pub(super) enum Finished<O> {
    /// The wait for the moment of an ordered list; none: of everything.
    Wait(Option<Selection>),
    List(ListRequest, Result<Listed<O>, RequestError>),
    Probe(Result<Probe, RequestError>),
}

/// A list that was asked for beside a stream.
pub(super) struct ListRequest {
    /// None: a freshness check.
    pub(super) selection: Option<Selection>,
    /// True for all objects, as far as they fit into one page.
    pub(super) of_all: bool,
    /// How long to wait for a marker before a probe is sent.
    pub(super) patience: Duration,
    /// The greatest resourceVersion that the stream or a proof had shown then.
    pub(super) seen: u64,
}

impl<O> Open<O> {
    /// For a stream that was asked for at a moment, and that `lists` all objects first or not.
    pub(super) fn new(sent: Duration, lists: bool) -> Self {
        Self {
            sent,
            initial: lists.then(HashMap::new),
            checks: FreshnessChecks::default(),
            ordered: OrderedLists::new(),
            narrow: Vec::new(),
            turns: Arc::new(Semaphore::new(NARROW_LISTS_AT_ONCE)),
            requests: FuturesUnordered::new(),
        }
    }

    /// The narrow list of a selection, if it was requested.
    pub(super) fn narrow_list(&mut self, selection: &Selection) -> Option<&mut NarrowList<O>> {
        self.narrow
            .iter_mut()
            .find(|narrow| narrow.selection == *selection)
    }

    /// Drops a narrow list that failed.
    pub(super) fn drop_narrow_list(&mut self, selection: Selection) {
        self.narrow.retain(|narrow| narrow.selection != selection);
        self.ordered.remove(&Some(selection));
    }
}
