//! Get, list, create, update, patch and delete (k8s.io/docs/reference/using-api/api-concepts).

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use super::reply::{self, Body};
use super::{Api, ApiCall, event, header, service_ip};
use crate::api::object::{Object, Selector};
use crate::api::{ApiError, Kind, patch};
use crate::object::non_empty;

/// How long a request for a resourceVersion of the future waits for it, as in the real server.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// Largest page of an agent's freshness check.
const FRESHNESS_CHECK: usize = 11;

impl Api {
    pub(super) fn get(&self, call: &ApiCall) -> Result<Response<Body>, ApiError> {
        let target = call.target()?;
        let object = self.store.get(&target).ok_or_else(|| target.missing())?;
        Ok(reply::json(StatusCode::OK, &object))
    }

    /// A list of the state now, or of that of the first page; an asked resourceVersion is the
    /// oldest that it may show.
    pub(super) async fn list(&self, call: &ApiCall) -> Result<Response<Body>, ApiError> {
        let kind = call.kind;
        let query = &call.query;
        let selector = call.selector()?;
        let (first, after) = query.text("continue").map(read_token).transpose()?.unzip();
        self.store.wait_for(query.version()?.0, PATIENCE).await?;
        let at = self.faults.borrow().cached.or(first);
        let limit = query
            .number("limit")?
            .filter(|limit| *limit > 0)
            .unwrap_or(usize::MAX);
        let mut page = self.store.page(kind, &selector, at, after, limit)?;
        // A freshness check stays true.
        if limit > FRESHNESS_CHECK {
            self.faults.borrow().poison(kind, &mut page.items);
        }
        let mut meta = json!({"resourceVersion": page.rv.to_string()});
        if let Some(last) = page.more_after {
            meta["continue"] = format!("{}:{last}", page.rv).into();
        }
        let head = json!({"kind": format!("{kind}List"), "apiVersion": kind.api_version(), "metadata": meta});
        Ok(reply::parts(list(&head, &page.items)))
    }

    pub(super) fn create(&self, call: &ApiCall) -> Result<Response<Body>, ApiError> {
        let mut object = call.object()?;
        call.check(None, &object)?;
        if call.kind == Kind::Service {
            let others = self.store.list(Kind::Service);
            service_ip::assign(&mut object, &others, self.store.revision());
        }
        let meta = &object["metadata"];
        if non_empty(&meta["resourceVersion"]).is_some() {
            return Err(ApiError::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let target = call.route.target(call.kind, non_empty(&meta["name"]))?;
        let stored = self.store.write(&target, |old| match old {
            Some(_) => Err(ApiError::new(
                409,
                "AlreadyExists",
                format!("{target} already exists"),
            )),
            None => Ok(object),
        })?;
        Ok(reply::json(StatusCode::CREATED, &stored))
    }

    /// Replaces the object that the path names by the body, or by what the patch in the body makes
    /// of the object. An object that is applied need not exist.
    pub(super) fn update(&self, call: &ApiCall, verb: &str) -> Result<Response<Body>, ApiError> {
        let target = call.target()?;
        let format = header(&call.headers, CONTENT_TYPE);
        if format == patch::SERVER_SIDE && self.store.get(&target).is_none() {
            return self.create(call);
        }
        let body = call.object()?;
        let stored = self.store.write(&target, |old| {
            let old = old.ok_or_else(|| target.missing())?;
            let new = match verb {
                "patch" => patch::apply(format, old, &body)?,
                _ => body,
            };
            call.check(Some(old), &new)?;
            Ok(new)
        })?;
        Ok(reply::json(StatusCode::OK, &stored))
    }

    pub(super) fn delete(&self, call: &ApiCall) -> Result<Response<Body>, ApiError> {
        let body = if call.body.is_empty() {
            Value::Null
        } else {
            call.object()?
        };
        let grace = body["gracePeriodSeconds"]
            .as_u64()
            .and_then(|grace| grace.try_into().ok());
        let last = self.store.delete(&call.target()?, grace)?;
        Ok(reply::json(StatusCode::OK, &last))
    }
}

impl ApiCall {
    /// The namespace, labels and fields that the request selects; a name in the path counts.
    pub(super) fn selector(&self) -> Result<Selector, ApiError> {
        let mut fields = Vec::new();
        if let Some(namespace) = &self.route.namespace {
            fields.push(format!("metadata.namespace={namespace}"));
        }
        if let Some(name) = &self.route.name {
            fields.push(format!("metadata.name={name}"));
        }
        if let Some(asked) = self.query.text("fieldSelector") {
            fields.push(asked.to_owned());
        }
        let labels = self.query.text("labelSelector").unwrap_or_default();
        Selector::parse(self.kind, labels, &fields.join(","))
    }

    /// An error unless an object, which replaces the `old` one, is of the kind, namespace and name
    /// in the path, and valid. Only a name in the path must be in the object, too.
    fn check(&self, old: Option<&Value>, object: &Value) -> Result<(), ApiError> {
        let kind = self.kind;
        let meta = &object["metadata"];
        for (field, given, expected) in [
            ("kind", &object["kind"], Some(&*kind.to_string())),
            (
                "apiVersion",
                &object["apiVersion"],
                Some(kind.api_version()),
            ),
            (
                "metadata.namespace",
                &meta["namespace"],
                self.route.namespace.as_deref(),
            ),
            ("metadata.name", &meta["name"], self.route.name.as_deref()),
        ] {
            let given = given.as_str().unwrap_or_default();
            if kind == Kind::Event && given == "events.k8s.io/v1" {
                continue;
            }
            let may_lack = given.is_empty() && field != "metadata.name";
            if let Some(expected) = expected.filter(|expected| !may_lack && given != *expected) {
                let message =
                    format!("{field} {given:?} in the body does not match {expected:?} in the URL");
                return Err(ApiError::bad_request(message));
            }
        }
        event::check(kind, old, object)
    }
}

/// A list as JSON, in parts. The items are those of the store, not copies.
fn list(head: &Value, items: &[Arc<Object>]) -> Vec<Bytes> {
    let mut head = head.to_string();
    head.truncate(head.len().saturating_sub(1));
    let mut parts = vec![Bytes::from(head + ",\"items\":[")];
    for (index, item) in items.iter().enumerate() {
        parts.extend((index > 0).then_some(Bytes::from_static(b",")));
        parts.push(item.json.clone());
    }
    parts.push(Bytes::from_static(b"]}\n"));
    parts
}

/// The resourceVersion and the last key of the page before.
fn read_token(token: &str) -> Result<(u64, &str), ApiError> {
    let read = token
        .split_once(':')
        .and_then(|(rv, last)| Some((rv.parse().ok()?, last)));
    read.ok_or_else(|| ApiError::bad_request("continue key is not valid"))
}
