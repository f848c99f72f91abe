//! The objects, their history and the one increasing resourceVersion. Cheap to clone; every clone
//! sees the same objects.

mod collection;
mod write;

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use super::object::{Object, Selector};
use super::{ApiError, Kind, ObjectRef};
use collection::Collection;
pub(crate) use collection::ObjectChange;
pub(crate) use write::{random_uid, timestamp};

/// resourceVersion of an empty store.
const FIRST_REVISION: u64 = 300;
/// Changes kept per kind; watches and lists from before them are expired (410).
const KEPT_CHANGES: usize = 20_000;

/// A handle on the cluster's objects. It records no field managers: who needs `managedFields` sends
/// them.
#[derive(Clone, Debug)]
pub struct Store(Arc<watch::Sender<State>>);

#[derive(Debug)]
pub(crate) struct State {
    /// By the number of their kind.
    collections: Vec<Collection>,
    /// resourceVersion of the last change.
    pub(crate) revision: u64,
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

/// An empty cluster.
impl Default for Store {
    fn default() -> Self {
        let collections = Kind::ALL.iter().map(|_| Collection::default()).collect();
        Self(Arc::new(watch::Sender::new(State {
            collections,
            revision: FIRST_REVISION,
        })))
    }
}

impl Store {
    /// Reads one object.
    pub fn get(&self, target: &ObjectRef) -> Option<Value> {
        self.0.borrow().get(target).map(|object| object.value())
    }

    /// Reads every object of a kind, ordered by namespace and name.
    pub fn list(&self, kind: Kind) -> Vec<Value> {
        self.0
            .borrow()
            .of(kind)
            .objects
            .values()
            .map(|object| object.value())
            .collect()
    }

    /// Objects after key `after`, in the current state or as of resourceVersion `at`; expired if
    /// the history is too short.
    pub(crate) fn page(
        &self,
        kind: Kind,
        selector: &Selector,
        at: Option<u64>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page, ApiError> {
        let state = self.0.borrow();
        let rv = at.unwrap_or(state.revision);
        if rv > state.revision {
            return Err(ApiError::too_large(rv, state.revision));
        }
        let objects = state.of(kind).at(rv)?;
        let rest = objects.range::<str, _>((
            after.map_or(Bound::Unbounded, Bound::Excluded),
            Bound::Unbounded,
        ));
        let mut matching = rest.filter(|(_, object)| selector.matches(object));
        let page: Vec<_> = matching.by_ref().take(limit).collect();
        let more_after = match matching.next() {
            Some(_) => page.last().map(|(key, _)| (*key).clone()),
            None => None,
        };
        let items = page
            .into_iter()
            .map(|(_, object)| Arc::clone(object))
            .collect();
        Ok(Page {
            rv,
            items,
            more_after,
        })
    }

    /// resourceVersion of the last change of a kind.
    pub fn resource_version(&self, kind: Kind) -> u64 {
        self.0.borrow().of(kind).last
    }

    /// resourceVersion of the last change of any kind.
    pub fn revision(&self) -> u64 {
        self.0.borrow().revision
    }

    /// Raises the resourceVersion without touching an object, as lease renewals do all the time in
    /// a real cluster.
    pub fn advance(&self) {
        self.0.send_modify(|state| state.revision += 1);
    }

    /// Drops the history: lists and watches from an older resourceVersion get 410, open streams go
    /// on.
    pub fn forget_history(&self) {
        self.0.send_modify(
            |State {
                 collections,
                 revision,
             }| {
                for collection in collections {
                    collection.floor = *revision;
                }
            },
        );
    }

    /// The state, and news of its changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<State> {
        self.0.subscribe()
    }

    /// Waits for a resourceVersion, as the real server does for lists "not older than".
    pub(crate) async fn wait_for(&self, revision: u64, patience: Duration) -> Result<(), ApiError> {
        let mut changes = self.subscribe();
        let reached = tokio::time::timeout(
            patience,
            changes.wait_for(|state| state.revision >= revision),
        )
        .await;
        reached
            .map(drop)
            .map_err(|_| ApiError::too_large(revision, self.revision()))
    }

    /// Changes the state; open watches look for what is new.
    fn change(
        &self,
        change: impl FnOnce(&mut State) -> Result<Value, ApiError>,
    ) -> Result<Value, ApiError> {
        let mut changed = Ok(Value::Null);
        self.0.send_modify(|state| changed = change(state));
        changed
    }
}

impl State {
    pub(crate) fn of(&self, kind: Kind) -> &Collection {
        &self.collections[kind as usize]
    }

    fn get(&self, target: &ObjectRef) -> Option<&Arc<Object>> {
        self.of(target.kind).objects.get(&target.key())
    }

    /// Gives `object` the next resourceVersion and records it.
    fn commit(&mut self, target: &ObjectRef, mut object: Value, deleted: bool) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let stored = Arc::new(Object::new(target.kind, &object));
        self.collections[target.kind as usize].record(self.revision, target.key(), stored, deleted);
        object
    }
}
