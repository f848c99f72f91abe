//! Writes: create, replace, patch, delete.

use hyper::header::{CONTENT_TYPE, USER_AGENT};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::event;
use super::reply::{self, Body};
use super::{Api, Call};
use crate::api::patch::Format;
use crate::api::store::Writer;
use crate::api::{ApiError, Kind, Store};

impl Api {
    pub(super) fn create(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let mut object = call.checked_object()?;
        let text = |field: &str| object["metadata"][field].as_str().filter(|text| !text.is_empty());
        if text("resourceVersion").is_some() {
            return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
        }
        let generated = || {
            let suffix = Uuid::new_v4().simple().to_string();
            text("generateName").map(|prefix| format!("{prefix}{}", &suffix[..5]))
        };
        let name = text("name").map(str::to_owned).or_else(generated);
        let target = call.route.target(call.kind, name.as_deref())?;
        reset_status(target.kind, &mut object);
        event::check(target.kind, None, &object)?;
        let stored = self.writing(call).write(&target, |old| match old {
            Some(_) => Err(ApiError::already_exists(format!("{} {:?}", target.kind.plural(), target.name))),
            None => Ok(object),
        })?;
        Ok(reply::json(StatusCode::CREATED, &stored))
    }

    pub(super) fn replace(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let object = call.checked_object()?;
        self.change(call, |_| Ok(object))
    }

    pub(super) fn patch(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let format = Format::of(call.header(CONTENT_TYPE))?;
        let patch = call.object()?;
        self.change(call, |old| {
            let patched = format.apply(old, &patch)?;
            if patched["metadata"]["name"] != old["metadata"]["name"] {
                return Err(ApiError::bad_request("the name of the object does not match the URL"));
            }
            Ok(patched)
        })
    }

    /// Replaces the object that the path names by what `new` makes of it, as far as the path lets it.
    fn change(
        &self,
        call: &Call,
        new: impl FnOnce(&Value) -> Result<Value, ApiError>,
    ) -> Result<Response<Body>, ApiError> {
        let target = call.target()?;
        let stored = self.writing(call).write(&target, |old| {
            let old = old.ok_or_else(|| target.missing())?;
            let new = new(old)?;
            event::check(target.kind, Some(old), &new)?;
            Ok(confine(target.kind, call.route.is_status(), old, new))
        })?;
        Ok(reply::json(StatusCode::OK, &stored))
    }

    pub(super) fn delete(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let body = if call.body.is_empty() { Value::Null } else { call.object()? };
        let grace = body["gracePeriodSeconds"].as_u64().and_then(|grace| grace.try_into().ok());
        let last = self.writing(call).delete(&call.target()?, grace.or(call.query.grace))?;
        Ok(reply::json(StatusCode::OK, &last))
    }

    /// A handle on the store that writes as the caller: `fieldManager`, else the program in the User-Agent.
    fn writing(&self, call: &Call) -> Store {
        let agent = call.header(USER_AGENT).split('/').next().unwrap_or_default();
        let manager = if call.query.field_manager.is_empty() { agent } else { &call.query.field_manager };
        self.store.writing(Writer { manager: manager.into(), status: call.route.is_status() })
    }
}

impl Call {
    /// The body, if it is an object of the kind, namespace and name in the path.
    fn checked_object(&self) -> Result<Value, ApiError> {
        let object = self.object()?;
        let (kind, meta) = (self.kind, &object["metadata"]);
        for (field, given, expected) in [
            ("kind", &object["kind"], Some(kind.name())),
            ("apiVersion", &object["apiVersion"], Some(kind.api_version())),
            ("metadata.namespace", &meta["namespace"], self.route.namespace.as_deref()),
            ("metadata.name", &meta["name"], self.route.name.as_deref()),
        ] {
            let given = given.as_str().unwrap_or_default();
            if kind == Kind::Event && given == "events.k8s.io/v1" {
                continue;
            }
            if let Some(expected) = expected.filter(|expected| !given.is_empty() && given != *expected) {
                let message = format!("{field} {given:?} in the body does not match {expected:?} in the URL");
                return Err(ApiError::bad_request(message));
            }
        }
        Ok(object)
    }
}

/// Creates do not set the status; Nodes are registered with theirs.
fn reset_status(kind: Kind, object: &mut Value) {
    let status = match kind {
        Kind::Pod => json!({"phase": "Pending"}),
        Kind::Namespace => json!({"phase": "Active"}),
        Kind::Service => json!({"loadBalancer": {}}),
        Kind::DaemonSet => json!({}),
        _ => return,
    };
    if let Some(object) = object.as_object_mut() {
        object.insert("status".into(), status);
    }
}

/// Keeps fields that a write may not change: status in a write to the main resource, all but status and metadata in a
/// write to `/status`, deletion marks in both.
fn confine(kind: Kind, status: bool, old: &Value, new: Value) -> Value {
    let mut confined = if status {
        let mut confined = old.clone();
        keep(&mut confined, &new, &["metadata", "status"]);
        confined
    } else {
        let mut confined = new;
        keep(&mut confined, old, if kind.has_status() { &["status"] } else { &[] });
        confined
    };
    if let Some(meta) = confined.get_mut("metadata") {
        keep(meta, &old["metadata"], &["deletionTimestamp", "deletionGracePeriodSeconds"]);
    }
    confined
}

/// Gives an object these fields of another one; it loses those that the other one does not have.
fn keep(object: &mut Value, other: &Value, fields: &[&str]) {
    let Some(object) = object.as_object_mut() else { return };
    for field in fields {
        object.remove(*field);
        object.extend(other.get(field).map(|value| ((*field).to_owned(), value.clone())));
    }
}
