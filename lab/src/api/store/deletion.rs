//! Deletes: grace for Pods (k8s.io/apiserver registry/rest/delete.go), and removal.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Store;
use super::write::{metadata, timestamp};
use crate::api::{ApiError, Kind, ObjectRef};

impl Store {
    /// Deletes as a user would. A bound Pod that has not finished gets its grace (seconds; none: the Pod's own) and is
    /// removed when deleted again with grace 0; all others go at once. Returns the last state.
    pub fn delete(&self, target: &ObjectRef, grace: Option<u32>) -> Result<Value, ApiError> {
        let mut state = self.lock();
        let mut object = state.get(target).ok_or_else(|| target.missing())?.value();
        let mut over = true;
        if target.kind == Kind::Pod {
            let grace = grace_period(&object, grace);
            if mark(&mut object, grace)? {
                object = state.commit(target, object, false);
            }
            over = object["metadata"]["deletionGracePeriodSeconds"] == 0;
        }
        if over {
            object = state.commit(target, object, true);
        }
        drop(state);
        self.notify();
        Ok(object)
    }

    /// Removes an object in one DELETED, without regard to grace. Returns its last state.
    pub fn remove(&self, target: &ObjectRef) -> Result<Value, ApiError> {
        let mut state = self.lock();
        let object = state.get(target).ok_or_else(|| target.missing())?.value();
        let gone = state.commit(target, object, true);
        drop(state);
        self.notify();
        Ok(gone)
    }
}

/// Sets or shortens a Pod's deletionTimestamp. False if nothing changes.
fn mark(pod: &mut Value, grace: i64) -> Result<bool, ApiError> {
    let meta = metadata(pod)?;
    let marked = meta.get("deletionTimestamp").and_then(Value::as_str);
    let marked = marked.and_then(|at| at.parse::<Timestamp>().ok());
    let had = meta.get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    let due = match (marked, had) {
        (Some(at), Some(had)) if grace < had => at.saturating_add(SignedDuration::from_secs(grace - had)),
        (Some(_), _) => return Ok(false),
        (None, _) => Timestamp::now().saturating_add(SignedDuration::from_secs(grace)),
    };
    let due = due.map_err(|error| ApiError::bad_request(error.to_string()))?;
    meta.insert("deletionTimestamp".into(), timestamp(due).into());
    meta.insert("deletionGracePeriodSeconds".into(), grace.into());
    if let (None, Some(generation)) = (marked, meta.get("generation").and_then(Value::as_i64)) {
        meta.insert("generation".into(), generation.saturating_add(1).into());
    }
    Ok(true)
}

/// pkg/registry/core/pod/strategy.go: no grace for Pods that are unbound or have finished.
fn grace_period(pod: &Value, asked: Option<u32>) -> i64 {
    let bound = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !bound || finished {
        return 0;
    }
    let own = || pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    asked.map_or_else(own, i64::from)
}
