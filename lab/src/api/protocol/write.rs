//! Writes: create, replace, patch, delete.

use hyper::header::CONTENT_TYPE;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::event;
use super::reply::{self, Body};
use super::{Api, Call};
use crate::api::patch::Format;
use crate::api::store::{DeleteOptions, Deletion, Writer};
use crate::api::{ApiError, Kind, ObjectRef, Store};

impl Api {
    pub(super) fn create(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let mut object = call.checked_object()?;
        if object["metadata"]["resourceVersion"].as_str().is_some_and(|rv| !rv.is_empty()) {
            return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
        }
        let generated = object["metadata"]["generateName"].as_str().map(|prefix| {
            let suffix = Uuid::new_v4().simple().to_string();
            format!("{prefix}{}", &suffix[..5])
        });
        let name =
            object["metadata"]["name"].as_str().map(str::to_owned).filter(|n| !n.is_empty()).or(generated);
        let target = call.route.target(name.as_deref())?;
        reset_status(target.kind, &mut object);
        event::check(target.kind, None, &object)?;
        let stored = self.writing(call, "Update")?.write(&target, |old| match old {
            Some(_) => Err(ApiError::already_exists(format!("{} {:?}", target.kind.plural(), target.name))),
            None => Ok(object),
        })?;
        Ok(reply::json(StatusCode::CREATED, &stored))
    }

    pub(super) fn replace(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let object = call.checked_object()?;
        let target = call.route.target(None)?;
        let stored = self.writing(call, "Update")?.write(&target, |old| {
            let old = old.ok_or_else(|| target.missing())?;
            event::check(target.kind, Some(old), &object)?;
            Ok(confine(call.route.kind, call.route.status, old, object))
        })?;
        Ok(reply::json(StatusCode::OK, &stored))
    }

    pub(super) fn patch(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let format = Format::of(call.header(CONTENT_TYPE))?;
        let patch = call.object()?;
        let target = call.route.target(None)?;
        let operation = if format == Format::Apply { "Apply" } else { "Update" };
        let mut code = StatusCode::OK;
        let stored = self.writing(call, operation)?.write(&target, |old| match old {
            Some(old) => {
                let patched = format.apply(old, &patch)?;
                if patched["metadata"]["name"] != target.name.as_str() {
                    return Err(ApiError::bad_request(format!(
                        "the name of the object does not match the URL: {target}"
                    )));
                }
                event::check(target.kind, Some(old), &patched)?;
                Ok(confine(target.kind, call.route.status, old, patched))
            }
            None if format == Format::Apply && !call.route.status => {
                code = StatusCode::CREATED;
                let mut object = patch.clone();
                reset_status(target.kind, &mut object);
                Ok(object)
            }
            None => Err(target.missing()),
        })?;
        Ok(reply::json(code, &stored))
    }

    pub(super) fn delete(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let target = call.route.target(None)?;
        let deletion = self.writing(call, "Update")?.delete_with(&target, &call.delete_options()?)?;
        let object = match deletion {
            Deletion::Pending(object) => object,
            Deletion::Gone(object) => json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": {
                    "name": target.name, "group": target.kind.group(), "kind": target.kind.plural(),
                    "uid": object["metadata"]["uid"],
                },
            }),
        };
        Ok(reply::json(StatusCode::OK, &object))
    }

    pub(super) fn delete_all(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let options = call.delete_options()?;
        let store = self.writing(call, "Update")?;
        let page = store.page(call.route.kind, &call.selector()?, None, None, usize::MAX)?;
        for object in &page.items {
            match store.delete_with(&ObjectRef::of(&object.value())?, &options) {
                Err(error) if error.code != 404 => return Err(error),
                _ => {}
            }
        }
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
        Ok(reply::json(StatusCode::OK, &status))
    }

    /// A handle on the store that writes as the caller.
    fn writing(&self, call: &Call, operation: &'static str) -> Result<Store, ApiError> {
        if call.query.dry_run {
            return Err(ApiError::bad_request("dryRun is not served here"));
        }
        let writer = Writer { manager: call.manager().into(), operation, status: call.route.status };
        Ok(self.store.writing(writer))
    }
}

impl Call {
    /// The body, if it is an object of the kind, namespace and name in the path.
    fn checked_object(&self) -> Result<Value, ApiError> {
        let object = self.object()?;
        let kind = self.route.kind;
        let meta = &object["metadata"];
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

    fn delete_options(&self) -> Result<DeleteOptions, ApiError> {
        let body = if self.body.is_empty() { Value::Null } else { self.object()? };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Ok(DeleteOptions {
            grace: body["gracePeriodSeconds"].as_i64().or(self.query.grace),
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
        })
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
fn confine(kind: Kind, status: bool, old: &Value, mut new: Value) -> Value {
    let Some(object) = new.as_object_mut() else {
        return new;
    };
    let restore = |map: &mut serde_json::Map<String, Value>, key: &str, old: &Value| match old.get(key) {
        Some(value) => _ = map.insert(key.into(), value.clone()),
        None => _ = map.remove(key),
    };
    if status {
        let keys: Vec<String> =
            object.keys().chain(old.as_object().into_iter().flat_map(|o| o.keys())).cloned().collect();
        for key in keys.iter().filter(|key| !matches!(key.as_str(), "metadata" | "status")) {
            restore(object, key, old);
        }
    } else if kind.has_status() {
        restore(object, "status", old);
    }
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            restore(meta, key, &old["metadata"]);
        }
    }
    new
}
