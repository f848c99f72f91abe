//! Creates, updates and deletes, with the metadata that the server itself writes. Pods have a grace
//! (k8s.io/apiserver registry/rest/delete.go).

use epguard_common::Uid;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::Store;
use crate::api::{ApiError, Kind, ObjectRef};
use crate::object::{merged, non_empty};

impl Store {
    /// Creates an object or merges into the stored one (JSON merge: lists are replaced, null
    /// removes), status included.
    ///
    /// A given uid, creationTimestamp or deletionTimestamp is kept; a given resourceVersion is not.
    /// Errors: no kind or name, or another uid than the stored object's (remove that first).
    pub fn apply(&self, mut object: Value) -> Result<Value, ApiError> {
        let target = ObjectRef::of(&object)?;
        metadata(&mut object)?.remove("resourceVersion");
        self.write(&target, |old| {
            Ok(old.map_or(object.clone(), |old| merged(old, &object)))
        })
    }

    /// Merges a JSON merge patch into a stored object, status included. A resourceVersion in it is
    /// a precondition.
    pub fn patch(&self, target: &ObjectRef, patch: &Value) -> Result<Value, ApiError> {
        self.write(target, |old| {
            Ok(merged(old.ok_or_else(|| target.missing())?, patch))
        })
    }

    /// Creates a Namespace unless there is one. A real API server refuses objects without one; here
    /// the test must create it.
    ///
    /// Errors: no name.
    pub fn ensure_namespace(&self, name: &str) -> Result<(), ApiError> {
        let new = json!({
            "kind": "Namespace", "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        });
        let target = ObjectRef::of(&new)?;
        self.write(&target, |old| Ok(old.cloned().unwrap_or(new)))
            .map(drop)
    }

    /// Replaces `target` by the result of `change` on the stored object (none: create), with the
    /// server's own metadata. Without a difference nothing is written.
    pub(crate) fn write(
        &self,
        target: &ObjectRef,
        change: impl FnOnce(Option<&Value>) -> Result<Value, ApiError>,
    ) -> Result<Value, ApiError> {
        self.change(|state| {
            let old = state.get(target).map(|stored| stored.value());
            let old = old.as_ref();
            let mut new = change(old)?;
            if let Some(old) = old {
                check_preconditions(target, old, &new)?;
            }
            stamp(target, old, &mut new)?;
            if old == Some(&new) {
                return Ok(new);
            }
            stamp_generation(old, &mut new);
            Ok(state.commit(target, new, false))
        })
    }

    /// Deletes as a user would. A bound Pod that has not finished gets its grace (seconds; none:
    /// the Pod's own) and is removed when deleted again with grace 0; all others go at once.
    /// Returns the last state.
    pub fn delete(&self, target: &ObjectRef, grace: Option<u32>) -> Result<Value, ApiError> {
        self.change(|state| {
            let mut object = state.get(target).ok_or_else(|| target.missing())?.value();
            if target.kind == Kind::Pod {
                let grace = grace_period(&object, grace);
                if mark(&mut object, grace)? {
                    object = state.commit(target, object, false);
                }
                if object["metadata"]["deletionGracePeriodSeconds"] != 0 {
                    return Ok(object);
                }
            }
            Ok(state.commit(target, object, true))
        })
    }

    /// Removes an object in one DELETED, without regard to grace. Returns its last state.
    pub fn remove(&self, target: &ObjectRef) -> Result<Value, ApiError> {
        self.change(|state| {
            let object = state.get(target).ok_or_else(|| target.missing())?.value();
            Ok(state.commit(target, object, true))
        })
    }
}

/// A random UID.
pub(crate) fn random_uid() -> String {
    Uid {
        octets: fastrand::u128(..).to_ne_bytes(),
    }
    .to_string()
}

/// A time as Kubernetes writes it: RFC 3339 in seconds.
pub(crate) fn timestamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The metadata of an object, made if it is missing.
fn metadata(object: &mut Value) -> Result<&mut Map<String, Value>, ApiError> {
    let object = object
        .as_object_mut()
        .ok_or_else(|| ApiError::bad_request("an object must be a JSON object"))?;
    let meta = object.entry("metadata").or_insert_with(|| json!({}));
    meta.as_object_mut()
        .ok_or_else(|| ApiError::bad_request("metadata must be a JSON object"))
}

/// An error if the new state is of another object than the old one, or of an older version of it.
fn check_preconditions(target: &ObjectRef, old: &Value, new: &Value) -> Result<(), ApiError> {
    for (field, problem) in [
        (
            "uid",
            "the object has another uid: it is not the one that was read",
        ),
        (
            "resourceVersion",
            "the object has been modified; please apply your changes to the latest version and try again",
        ),
    ] {
        let given = new["metadata"][field].as_str().unwrap_or_default();
        if !given.is_empty() && old["metadata"][field] != given {
            let message = format!("Operation cannot be fulfilled on {target}: {problem}");
            return Err(ApiError::new(409, "Conflict", message));
        }
    }
    Ok(())
}

/// Writes the type, the name, and the metadata that the server alone may change.
fn stamp(target: &ObjectRef, old: Option<&Value>, new: &mut Value) -> Result<(), ApiError> {
    let meta = metadata(new)?;
    meta.insert("name".into(), target.name.clone().into());
    meta.remove("namespace");
    if !target.namespace.is_empty() {
        meta.insert("namespace".into(), target.namespace.clone().into());
    }
    if let Some(old) = old {
        for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
            meta.remove(field);
            meta.extend(
                old["metadata"]
                    .get(field)
                    .map(|value| (field.to_owned(), value.clone())),
            );
        }
    }
    meta.entry("uid").or_insert_with(|| random_uid().into());
    meta.entry("creationTimestamp")
        .or_insert_with(|| timestamp(Timestamp::now()).into());
    new["kind"] = target.kind.to_string().into();
    new["apiVersion"] = target.kind.api_version().into();
    Ok(())
}

/// `metadata.generation` counts changes outside metadata and status; here of every kind.
fn stamp_generation(old: Option<&Value>, new: &mut Value) {
    let before = new["metadata"]["generation"].as_i64().unwrap_or(1);
    let changed = old.is_some_and(|old| desired(old) != desired(new));
    new["metadata"]["generation"] = before.saturating_add(changed.into()).into();
}

/// An object without metadata and status.
fn desired(object: &Value) -> Value {
    let mut desired = object.clone();
    if let Some(fields) = desired.as_object_mut() {
        fields.remove("metadata");
        fields.remove("status");
    }
    desired
}

/// Sets or shortens a Pod's deletionTimestamp. False if nothing changes.
fn mark(pod: &mut Value, grace: i64) -> Result<bool, ApiError> {
    let meta = &mut pod["metadata"];
    let marked = meta["deletionTimestamp"]
        .as_str()
        .and_then(|at| at.parse::<Timestamp>().ok());
    let due = match (marked, meta["deletionGracePeriodSeconds"].as_i64()) {
        (Some(at), Some(had)) if grace < had => {
            at.saturating_add(SignedDuration::from_secs(grace - had))
        }
        (Some(_), _) => return Ok(false),
        (None, _) => Timestamp::now().saturating_add(SignedDuration::from_secs(grace)),
    };
    let due = due.map_err(|error| ApiError::bad_request(error.to_string()))?;
    meta["deletionTimestamp"] = timestamp(due).into();
    meta["deletionGracePeriodSeconds"] = grace.into();
    if let (None, Some(generation)) = (marked, meta["generation"].as_i64()) {
        meta["generation"] = generation.saturating_add(1).into();
    }
    Ok(true)
}

/// pkg/registry/core/pod/strategy.go: no grace for Pods that are unbound or have finished.
fn grace_period(pod: &Value, asked: Option<u32>) -> i64 {
    let spec = &pod["spec"];
    let finished = matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    if non_empty(&spec["nodeName"]).is_none() || finished {
        return 0;
    }
    asked.map_or_else(
        || spec["terminationGracePeriodSeconds"].as_i64().unwrap_or(30),
        i64::from,
    )
}
