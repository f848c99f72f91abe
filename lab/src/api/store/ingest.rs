//! Serves recorded watch events again, exactly as they were.

use std::sync::Arc;

use serde_json::Value;

use super::Store;
use crate::api::object::Object;
use crate::api::{ApiError, Kind, ObjectRef};

impl Store {
    /// Starts a new list of a recorded kind. At the bookmark that ends the initial events, objects that were not among them
    /// are deleted: DELETED with their last state and the bookmark's resourceVersion.
    pub fn reopen(&self, kind: Kind) {
        if let Some(collection) = self.lock().collections.get_mut(&kind) {
            collection.unseen = Some(collection.objects().keys().cloned().collect());
        }
    }

    /// Serves the object of one recorded watch event (`{"type": .., "object": ..}`) with its recorded resourceVersion and
    /// metadata. A BOOKMARK raises the resourceVersion that lists, bookmarks and new watches of that kind show; one that
    /// ends the initial events also makes everything before it expired. An object already stored in that version stays.
    ///
    /// Errors: not a [`Store::recording`], an ERROR event, no kind, no numeric resourceVersion.
    pub fn ingest(&self, event: &Value) -> Result<(), ApiError> {
        let object = &event["object"];
        let meta = &object["metadata"];
        let event_type = event["type"].as_str().unwrap_or_default();
        let rv = meta["resourceVersion"].as_str().and_then(|rv| rv.parse::<u64>().ok());
        let rv = rv.ok_or_else(|| {
            ApiError::bad_request(format!(
                "recorded {event_type} event without a numeric metadata.resourceVersion"
            ))
        })?;
        let kind = object["kind"].as_str().unwrap_or_default().parse()?;

        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(collection) = state.collections.get_mut(&kind).filter(|_| state.recording) else {
            return Err(ApiError::bad_request("cannot ingest into a live store: use Store::recording()"));
        };
        match event_type {
            "BOOKMARK" => {
                collection.last = collection.last.max(rv);
                if meta["annotations"]["k8s.io/initial-events-end"] == "true" {
                    for key in collection.unseen.take().unwrap_or_default() {
                        if let Some(mut object) = collection.get(&key).map(|stored| stored.value()) {
                            object["metadata"]["resourceVersion"] = rv.to_string().into();
                            collection.record(rv, key, Arc::new(Object::new(kind, &object)), true);
                        }
                    }
                    collection.forget_before(rv);
                }
            }
            "ADDED" | "MODIFIED" | "DELETED" => {
                let key = ObjectRef::of(object)?.key();
                let deleted = event_type == "DELETED";
                if let Some(unseen) = &mut collection.unseen {
                    unseen.remove(&key);
                }
                let known = collection.get(&key).is_some_and(|stored| {
                    stored.value()["metadata"]["resourceVersion"] == meta["resourceVersion"]
                });
                if deleted || !known {
                    collection.record(rv, key, Arc::new(Object::new(kind, object)), deleted);
                }
            }
            other => {
                return Err(ApiError::bad_request(format!("cannot ingest a watch event of type {other:?}")));
            }
        }
        state.revision = state.revision.max(rv);
        drop(guard);
        self.notify();
        Ok(())
    }
}
