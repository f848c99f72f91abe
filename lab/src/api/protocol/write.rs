//! Writes: create, replace, patch, delete.

use hyper::header::CONTENT_TYPE;
use hyper::{Response, StatusCode};
use serde_json::Value;

use super::event;
use super::reply::{self, Body};
use super::{Api, Call};
use crate::api::patch::Format;
use crate::api::{ApiError, Kind};

impl Api {
    pub(super) fn create(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let object = call.checked_object()?;
        let text = |field: &str| object["metadata"][field].as_str().filter(|text| !text.is_empty());
        if text("resourceVersion").is_some() {
            return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
        }
        let target = call.route.target(call.kind, text("name"))?;
        event::check(target.kind, None, &object)?;
        let stored = self.store.write(&target, |old| match old {
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

    /// Replaces the object that the path names by what `new` makes of it.
    fn change(
        &self,
        call: &Call,
        new: impl FnOnce(&Value) -> Result<Value, ApiError>,
    ) -> Result<Response<Body>, ApiError> {
        let target = call.target()?;
        let stored = self.store.write(&target, |old| {
            let old = old.ok_or_else(|| target.missing())?;
            let new = new(old)?;
            event::check(target.kind, Some(old), &new)?;
            Ok(new)
        })?;
        Ok(reply::json(StatusCode::OK, &stored))
    }

    pub(super) fn delete(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let body = if call.body.is_empty() { Value::Null } else { call.object()? };
        let grace = body["gracePeriodSeconds"].as_u64().and_then(|grace| grace.try_into().ok());
        let last = self.store.delete(&call.target()?, grace.or(call.query.grace))?;
        Ok(reply::json(StatusCode::OK, &last))
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
