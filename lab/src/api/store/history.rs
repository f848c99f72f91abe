//! What lists and watches see: states, and the changes between them.

use super::{Change, Store};
use crate::api::{ApiError, Kind, ObjectRef};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::watch;

/// A consistent state of one kind.
#[derive(Debug)]
pub(in crate::api) struct Snapshot {
    pub(in crate::api) version: u64,
    /// By key, in order.
    pub(in crate::api) objects: Vec<(String, Arc<Value>)>,
    /// Where changes go on from the newest state.
    pub(in crate::api) position: u64,
}

impl Store {
    /// Every list and watch from before now is answered with 410 Gone.
    pub fn forget_history(&self) {
        let mut state = self.lock();
        state.version += 1;
        let version = state.version;
        for collection in state.kinds.values_mut() {
            collection.forget_before(version);
        }
    }

    /// Takes in a recorded watch event, `{"type":..,"object":..}`, with its own resourceVersion.
    pub fn ingest(&self, event: &Value) -> Result<(), ApiError> {
        let object = &event["object"];
        let version =
            version_of(object).ok_or_else(|| ApiError::bad_request("event without a resourceVersion"))?;
        let deleted = match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => false,
            Some("DELETED") => true,
            Some("BOOKMARK") => {
                let mut state = self.lock();
                state.version = state.version.max(version);
                return Ok(());
            }
            other => return Err(ApiError::bad_request(format!("event of type {other:?}"))),
        };
        let id = ObjectRef::of(object)?;
        let mut state = self.lock();
        state.version = state.version.max(version);
        state
            .of_mut(id.kind)
            .record(version, id.key(), Arc::new(object.clone()), deleted);
        drop(state);
        self.announce();
        Ok(())
    }

    /// Wakes whoever waits for changes.
    pub(in crate::api) fn subscribe(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    /// Objects at a resourceVersion (now: `None`).
    pub(in crate::api) fn snapshot(&self, kind: Kind, at: Option<u64>) -> Result<Snapshot, ApiError> {
        let state = self.lock();
        let version = at.unwrap_or(state.version);
        let collection = state.of(kind);
        let objects = collection
            .at(version)?
            .iter()
            .map(|(key, object)| (key.clone(), Arc::clone(object)))
            .collect();
        Ok(Snapshot {
            version,
            objects,
            position: collection.end(),
        })
    }

    /// Where a stream that has seen `version` goes on: the changes since, and the position after them.
    pub(in crate::api) fn changes_after(
        &self,
        kind: Kind,
        version: u64,
    ) -> Result<(Vec<Arc<Change>>, u64), ApiError> {
        let state = self.lock();
        if version > state.version {
            return Err(ApiError::too_large(version, state.version));
        }
        let collection = state.of(kind);
        Ok((collection.after(version)?, collection.end()))
    }

    /// Changes from a position on, and the position after them.
    pub(in crate::api) fn changes_from(
        &self,
        kind: Kind,
        position: u64,
    ) -> Result<(Vec<Arc<Change>>, u64), ApiError> {
        let state = self.lock();
        let collection = state.of(kind);
        Ok((collection.since(position)?, collection.end()))
    }
}

fn version_of(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}
