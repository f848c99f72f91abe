//! Deletes: grace for Pods, finalizers, preconditions (k8s.io/apiserver registry/rest/delete.go).

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::write::{has_finalizers, metadata, timestamp};
use super::{State, Store};
use crate::api::{ApiError, Kind, ObjectRef};

/// The options of `DeleteOptions` that the server supports.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    /// Grace in seconds; none: the Pod's own `terminationGracePeriodSeconds`.
    pub(crate) grace: Option<i64>,
    /// Delete only the object with this uid.
    pub(crate) uid: Option<String>,
    /// Delete only this version of the object.
    pub(crate) resource_version: Option<String>,
}

/// Result of a delete.
#[derive(Debug)]
pub(crate) enum Deletion {
    /// The object is marked and waits for its grace or finalizers.
    Pending(Value),
    /// The object is gone; its last state.
    Gone(Value),
}

impl Store {
    /// Deletes as a user would. A bound Pod that has not finished gets its grace (seconds; none: the Pod's own) and is
    /// removed when deleted again with grace 0. Finalizers keep an object; all others go at once. Returns the last state.
    pub fn delete(&self, target: &ObjectRef, grace: Option<u32>) -> Result<Value, ApiError> {
        let options = DeleteOptions { grace: grace.map(i64::from), ..DeleteOptions::default() };
        let (Deletion::Pending(object) | Deletion::Gone(object)) = self.delete_with(target, &options)?;
        Ok(object)
    }

    /// Removes an object in one DELETED, without regard to grace and finalizers. Returns its last state.
    pub fn remove(&self, target: &ObjectRef) -> Result<Value, ApiError> {
        let mut state = self.lock();
        let object = state.existing(target)?;
        let gone = state.commit(target, object, true);
        drop(state);
        self.notify();
        Ok(gone)
    }

    pub(crate) fn delete_with(
        &self,
        target: &ObjectRef,
        options: &DeleteOptions,
    ) -> Result<Deletion, ApiError> {
        let mut state = self.lock();
        let object = state.existing(target)?;
        check_preconditions(target, &object, options)?;
        let deletion = if target.kind == Kind::Pod || has_finalizers(&object) {
            mark(&mut state, target, object, options)?
        } else {
            Deletion::Gone(state.commit(target, object, true))
        };
        drop(state);
        self.notify();
        Ok(deletion)
    }
}

impl State {
    fn existing(&self, target: &ObjectRef) -> Result<Value, ApiError> {
        let object = self.get(target).ok_or_else(|| target.missing())?;
        Ok(object.value())
    }
}

fn check_preconditions(target: &ObjectRef, object: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    for (field, wanted) in [("uid", &options.uid), ("resourceVersion", &options.resource_version)] {
        let has = object["metadata"][field].as_str().unwrap_or_default();
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != has) {
            let message =
                format!("Precondition failed: {field} in precondition: {wanted}, in object meta: {has}");
            return Err(ApiError::conflict(format!("Operation cannot be fulfilled on {target}: {message}")));
        }
    }
    Ok(())
}

/// Sets or shortens deletionTimestamp (one MODIFIED), then removes the object if no grace or finalizer keeps it.
fn mark(
    state: &mut State,
    target: &ObjectRef,
    mut object: Value,
    options: &DeleteOptions,
) -> Result<Deletion, ApiError> {
    let grace = grace_period(target, &object, options);
    let held = has_finalizers(&object);
    let meta = metadata(&mut object)?;
    let marked =
        meta.get("deletionTimestamp").and_then(Value::as_str).and_then(|t| t.parse::<Timestamp>().ok());
    let had = meta.get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    let deadline = match (marked, had) {
        (Some(at), Some(had)) if grace < had => {
            Some(at.saturating_add(SignedDuration::from_secs(grace - had)))
        }
        (Some(_), _) => None,
        (None, _) => Some(Timestamp::now().saturating_add(SignedDuration::from_secs(grace))),
    };
    if let Some(deadline) = deadline.and_then(Result::ok) {
        meta.insert("deletionTimestamp".into(), timestamp(deadline).into());
        meta.insert("deletionGracePeriodSeconds".into(), grace.into());
        if marked.is_none()
            && let Some(generation) = meta.get("generation").and_then(Value::as_i64)
        {
            meta.insert("generation".into(), generation.saturating_add(1).into());
        }
        object = state.commit(target, object, false);
    }
    let over = object["metadata"]["deletionGracePeriodSeconds"].as_i64().is_none_or(|left| left == 0);
    Ok(if over && !held {
        Deletion::Gone(state.commit(target, object, true))
    } else {
        Deletion::Pending(object)
    })
}

/// pkg/registry/core/pod/strategy.go: no grace for Pods that are unbound or have finished.
fn grace_period(target: &ObjectRef, pod: &Value, options: &DeleteOptions) -> i64 {
    let bound = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if target.kind != Kind::Pod || !bound || finished {
        return 0;
    }
    let own = || pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    let grace = options.grace.unwrap_or_else(own);
    if grace < 0 { 1 } else { grace.min(i64::from(u32::MAX)) }
}
