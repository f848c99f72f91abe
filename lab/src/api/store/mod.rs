//! The objects, their history and the one increasing resourceVersion. Cheap to clone; every clone sees the same objects.

mod collection;
mod write;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use super::object::Object;
use super::selector::Selector;
use super::{ApiError, Kind, ObjectRef};
pub(crate) use collection::Change;
use collection::Collection;
pub(crate) use write::random_uid;

/// resourceVersion of an empty store.
const FIRST_REVISION: u64 = 300;
/// Changes kept per kind; watches and lists from before them are expired (410).
const KEPT_CHANGES: usize = 20_000;

/// A handle on the cluster's objects. It records no field managers: who needs `managedFields` sends them.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    collections: BTreeMap<Kind, Collection>,
    revision: u64,
}

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    /// resourceVersion of the snapshot.
    pub(crate) rv: u64,
    pub(crate) items: Vec<Arc<Object>>,
    /// Key of the last item if more follow.
    pub(crate) more_after: Option<String>,
}

/// Changes that a watch has not sent yet.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) changes: Vec<Arc<Change>>,
    /// The resourceVersion they reach, from which the watch goes on.
    pub(crate) rv: u64,
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl Store {
    /// An empty cluster.
    pub fn new() -> Self {
        let collection = |kind: &Kind| (*kind, Collection::new(FIRST_REVISION, KEPT_CHANGES));
        let collections = Kind::ALL.iter().map(collection).collect();
        let state = Mutex::new(State { collections, revision: FIRST_REVISION });
        let shared = Arc::new(Shared { state, changed: watch::Sender::new(0) });
        Self { shared }
    }

    /// Reads one object as JSON.
    pub(crate) fn json(&self, target: &ObjectRef) -> Option<Bytes> {
        self.lock().get(target).map(|object| object.json().clone())
    }

    /// Reads one object.
    pub fn get(&self, target: &ObjectRef) -> Option<Value> {
        self.lock().get(target).map(|o| o.value())
    }

    /// Reads every object of a kind, ordered by namespace and name.
    pub fn list(&self, kind: Kind) -> Vec<Value> {
        self.lock().of(kind).map_or_else(Vec::new, |c| c.objects().values().map(|o| o.value()).collect())
    }

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
        let more_after = page.last().filter(|_| more).map(|(key, _)| (*key).to_owned());
        let items = page.into_iter().map(|(_, object)| Arc::clone(object)).collect();
        Ok(Page { rv, items, more_after })
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
        read: impl FnOnce(&Collection) -> Result<Vec<Arc<Change>>, ApiError>,
    ) -> Result<Batch, ApiError> {
        let state = self.lock();
        let collection = state.of(kind).ok_or_else(|| ApiError::not_found(kind))?;
        Ok(Batch { changes: read(collection)?, rv: state.revision })
    }

    /// resourceVersion of the last change of a kind.
    pub fn resource_version(&self, kind: Kind) -> u64 {
        self.lock().of(kind).map_or(0, |c| c.last)
    }

    /// resourceVersion of the last change of any kind.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// Raises the resourceVersion without touching an object, as lease renewals do all the time in a real cluster.
    pub fn advance(&self) {
        self.lock().revision += 1;
        self.notify();
    }

    /// Drops the history: lists and watches from an older resourceVersion get 410, open streams go on.
    pub fn forget_history(&self) {
        let mut state = self.lock();
        let State { collections, revision } = &mut *state;
        for collection in collections.values_mut() {
            collection.forget_before(*revision);
        }
    }

    /// Counts up at every change. Await `changed()` on it instead of polling the store.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Waits for a resourceVersion, as the real server does for lists "not older than".
    pub(crate) async fn wait_for(&self, revision: u64, patience: Duration) -> Result<(), ApiError> {
        let reached = async {
            let mut changed = self.subscribe();
            while self.revision() < revision && changed.changed().await.is_ok() {}
        };
        let timed_out = |_| ApiError::too_large(revision, self.revision());
        tokio::time::timeout(patience, reached).await.map_err(timed_out)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.shared.changed.send_modify(|count| *count += 1);
    }
}

impl State {
    fn of(&self, kind: Kind) -> Option<&Collection> {
        self.collections.get(&kind)
    }

    fn get(&self, target: &ObjectRef) -> Option<&Arc<Object>> {
        self.of(target.kind)?.get(&target.key())
    }

    /// Gives `object` the next resourceVersion and records it.
    fn commit(&mut self, target: &ObjectRef, mut object: Value, deleted: bool) -> Value {
        self.revision += 1;
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.insert("resourceVersion".into(), self.revision.to_string().into());
        }
        if let Some(collection) = self.collections.get_mut(&target.kind) {
            let stored = Arc::new(Object::new(target.kind, &object));
            collection.record(self.revision, target.key(), stored, deleted);
        }
        object
    }
}
