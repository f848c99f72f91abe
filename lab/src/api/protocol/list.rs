//! Reads: get and list (k8s.io/docs/reference/using-api/api-concepts, resource versions).

use std::sync::Arc;
use std::time::Duration;

use hyper::Response;
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::reply::{self, Body};
use super::{Api, Call};
use crate::api::ApiError;
use crate::api::object::Object;
use crate::api::selector::Selector;

/// How long a request for a resourceVersion of the future waits for it, as in the real server.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// Largest page with which an agent confirms its view.
const CONFIRMATION: usize = 11;

impl Api {
    pub(super) fn get(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let target = call.target()?;
        let json = self.store.json(&target).ok_or_else(|| target.missing())?;
        Ok(reply::parts(vec![json]))
    }

    /// A list of the state now, or of that of the first page; an asked resourceVersion is the oldest that it may show.
    pub(super) async fn list(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let (kind, query) = (call.kind, &call.query);
        let selector = call.selector()?;
        let (first, after) = query.continue_token.as_deref().map(read_token).transpose()?.unzip();
        self.store.wait_for(query.resource_version, PATIENCE).await?;
        let at = self.faults.borrow().cached.or(first);
        let limit = query.limit.unwrap_or(usize::MAX);
        let mut page = self.store.page(kind, &selector, at, after.as_deref(), limit)?;
        // A confirmation of the view stays true.
        if limit > CONFIRMATION {
            self.faults.borrow().poison(kind, &mut page.items);
        }
        let mut meta = json!({"resourceVersion": page.rv.to_string()});
        if let Some(last) = page.more_after {
            meta["continue"] = format!("{}:{last}", page.rv).into();
        }
        let head = json!({"kind": format!("{kind}List"), "apiVersion": kind.api_version(), "metadata": meta});
        Ok(reply::parts(list(&head, &page.items)))
    }
}

/// A list as JSON, in parts. The items are those of the store, not copies.
fn list(head: &Value, items: &[Arc<Object>]) -> Vec<Bytes> {
    const COMMA: Bytes = Bytes::from_static(b",");
    let mut head = head.to_string();
    head.truncate(head.len().saturating_sub(1));
    let mut parts = Vec::with_capacity(2 * items.len() + 2);
    parts.push(Bytes::from(head + ",\"items\":["));
    for (index, item) in items.iter().enumerate() {
        parts.extend((index > 0).then_some(COMMA));
        parts.push(item.json().clone());
    }
    parts.push(Bytes::from_static(b"]}"));
    parts
}

impl Call {
    /// The namespace, labels and fields that the request selects; a name in the path counts.
    pub(super) fn selector(&self) -> Result<Selector, ApiError> {
        let Self { kind, route, query, .. } = self;
        let name = route.name.iter().map(|name| format!("metadata.name={name}"));
        let fields: Vec<String> = name.chain([query.fields.clone()]).collect();
        Selector::parse(*kind, route.namespace.as_deref(), &query.labels, &fields.join(","))
    }
}

/// The resourceVersion and the last key of the page before.
fn read_token(token: &str) -> Result<(u64, String), ApiError> {
    let read = || {
        let (rv, last) = token.split_once(':')?;
        Some((rv.parse().ok()?, last.to_owned()))
    };
    read().ok_or_else(|| ApiError::bad_request("continue key is not valid"))
}
