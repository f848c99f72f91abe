//! Read access of lists and watches.

use std::ops::Bound;
use std::sync::Arc;

use super::{Change, Store};
use crate::api::object::Object;
use crate::api::selector::Selector;
use crate::api::{ApiError, Kind};

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    /// resourceVersion of the snapshot.
    pub(crate) rv: u64,
    pub(crate) items: Vec<Arc<Object>>,
    /// Key of the last item if more follow.
    pub(crate) more_after: Option<String>,
    /// How many items follow; as in the real server, known only without label and field selectors.
    pub(crate) remaining: Option<usize>,
}

/// Changes that a watch has not sent yet.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) changes: Vec<Arc<Change>>,
    /// The resourceVersion they reach, from which the watch goes on.
    pub(crate) rv: u64,
}

impl Store {
    /// Objects after key `after`, in the current state or as of resourceVersion `at`; expired if the history is too short.
    pub(crate) fn page(
        &self,
        kind: Kind,
        selector: &Selector,
        at: Option<u64>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page, ApiError> {
        let state = self.lock();
        let collection = state.of(kind).ok_or_else(|| ApiError::not_found(kind))?;
        let rv = at.unwrap_or(state.revision);
        if rv > state.revision {
            return Err(ApiError::too_large(rv, state.revision));
        }
        let objects = collection.at(rv)?;
        // A namespace's objects stand together.
        let prefix = selector.namespace().map(|namespace| format!("{namespace}/"));
        let prefix = prefix.as_deref().unwrap_or_default();
        let start = after.map_or(Bound::Included(prefix), Bound::Excluded);
        let mut matching = objects
            .range(start)
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter(|(_, o)| selector.matches(o));
        let page: Vec<_> = matching.by_ref().take(limit).collect();
        let more = matching.next().is_some();
        let remaining = (more && selector.takes_all()).then(|| 1 + matching.count());
        let more_after = page.last().filter(|_| more).map(|(key, _)| (*key).to_owned());
        let items = page.into_iter().map(|(_, object)| Arc::clone(object)).collect();
        Ok(Page { rv, items, more_after, remaining })
    }

    /// Changes after a resourceVersion for a new stream; expired if the history does not reach back so far.
    pub(crate) fn changes_after(&self, kind: Kind, rv: u64) -> Result<Batch, ApiError> {
        self.batch(kind, |collection| collection.after(rv))
    }

    /// Changes after a resourceVersion for an open stream; expired if they are no longer kept.
    pub(crate) fn changes_since(&self, kind: Kind, rv: u64) -> Result<Batch, ApiError> {
        self.batch(kind, |collection| collection.since(rv))
    }

    fn batch(
        &self,
        kind: Kind,
        read: impl FnOnce(&super::Collection) -> Result<Vec<Arc<Change>>, ApiError>,
    ) -> Result<Batch, ApiError> {
        let state = self.lock();
        let collection = state.of(kind).ok_or_else(|| ApiError::not_found(kind))?;
        Ok(Batch { changes: read(collection)?, rv: state.revision })
    }
}
