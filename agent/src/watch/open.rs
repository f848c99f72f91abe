//! The state of an open stream and of the requests beside it.

use super::confirm::{Confirmations, Probe};
use super::failure::Failure;
use super::line::Entry;
use super::list::Listed;
use super::orders::Lists;
use epguard_core::facts::{Name, Selection};
use futures::{future::BoxFuture, stream::FuturesUnordered};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// Narrow lists that are requested at the same time.
const AT_ONCE: usize = 2;

/// The state of a stream.
pub(super) struct Open<O> {
    /// When the stream was asked for, of `CLOCK_BOOTTIME`.
    pub(super) sent: Duration,
    /// What a streamed list has shown so far; none once it is complete, or for a stream that begins with changes.
    pub(super) initial: Option<HashMap<Name, Entry<O>>>,
    pub(super) confirmations: Confirmations,
    /// Lists that were ordered, and whose moment is to come.
    pub(super) ordered: Lists,
    /// Narrow lists that were asked for.
    pub(super) beside: Vec<Beside<O>>,
    pub(super) turns: Arc<Semaphore>,
    pub(super) requests: FuturesUnordered<BoxFuture<'static, Done<O>>>,
}

/// A narrow list beside a stream.
pub(super) struct Beside<O> {
    pub(super) selection: Selection,
    /// Objects that the stream has shown since the list was asked for, with their last resourceVersions.
    pub(super) changed: HashMap<Name, u64>,
    pub(super) listed: Option<Listed<O>>,
}

/// A request beside a stream that has ended.
pub(super) enum Done<O> {
    /// The moment of an ordered list is there; none: of everything.
    Due(Option<Selection>),
    Listed(Asked, Result<Listed<O>, Failure>),
    Probed(Result<Probe, Failure>),
}

/// A list that was asked for beside a stream.
pub(super) struct Asked {
    /// None: to confirm the stream.
    pub(super) selection: Option<Selection>,
    /// True for all objects, as far as they fit into one page.
    pub(super) of_all: bool,
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
            confirmations: Confirmations::default(),
            ordered: Lists::new(),
            beside: Vec::new(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            requests: FuturesUnordered::new(),
        }
    }
}
