//! Reads: get and list (k8s.io/docs/reference/using-api/api-concepts, resource versions).

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::Response;
use hyper::body::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::query::Match;
use super::reply::{self, Body};
use super::{Api, Call};
use crate::api::ApiError;
use crate::api::object::Object;
use crate::api::selector::Selector;

/// How long a request for a resourceVersion of the future waits for it, as in the real server.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// Largest page with which an agent confirms its view.
const CONFIRMATION: usize = 11;

/// What stands before the items of a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    kind: String,
    api_version: &'static str,
    metadata: Value,
}

impl Api {
    pub(super) fn get(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let target = call.route.target(None)?;
        let json = self.store.json(&target);
        let json = json.ok_or_else(|| target.missing())?;
        Ok(reply::parts(vec![json]))
    }

    pub(super) async fn list(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let (kind, query) = (call.route.kind, &call.query);
        let selector = call.selector()?;
        let (at, after) = match &query.continue_token {
            Some(_) if query.resource_version.is_some_and(|rv| rv > 0) || query.version_match.is_some() => {
                return Err(ApiError::bad_request(
                    "resourceVersion and resourceVersionMatch are forbidden with continue",
                ));
            }
            Some(token) => {
                let (rv, after) = read_token(token)?;
                (Some(rv), Some(after))
            }
            None => (self.snapshot(call).await?, None),
        };
        let at = self.faults.borrow().cached.or(at);
        let limit = query.limit.unwrap_or(usize::MAX);
        let mut page = self.store.page(kind, &selector, at, after.as_deref(), limit).map_err(|error| {
            if after.is_some() && error.code == 410 {
                return ApiError::expired(
                    "The provided continue parameter is too old to display a consistent list result",
                );
            }
            error
        })?;
        // A confirmation of the view stays true.
        if limit > CONFIRMATION {
            self.faults.borrow().poison(kind, &mut page.items);
        }
        let mut meta = json!({"resourceVersion": page.rv.to_string()});
        if let Some(last) = page.more_after {
            meta["continue"] = write_token(page.rv, &last).into();
            if let Some(remaining) = page.remaining {
                meta["remainingItemCount"] = remaining.into();
            }
        }
        let head = Head { kind: format!("{kind}List"), api_version: kind.api_version(), metadata: meta };
        Ok(reply::parts(head.with(&page.items)))
    }

    /// The resourceVersion a list must show exactly; none: the current one, which is new enough.
    async fn snapshot(&self, call: &Call) -> Result<Option<u64>, ApiError> {
        let query = &call.query;
        let exact = match (query.version_match, query.resource_version) {
            (Some(_), None) => {
                return Err(ApiError::bad_request(
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            (Some(Match::Exact), Some(0)) => {
                return Err(ApiError::bad_request(
                    "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
            (None, None) | (_, Some(0)) => return Ok(None),
            (Some(Match::NotOlderThan), Some(_)) => false,
            (Some(Match::Exact), Some(_)) => true,
            (None, Some(_)) => query.limit.is_some(),
        };
        let asked = query.resource_version.unwrap_or_default();
        if !exact {
            self.store.wait_for(call.route.kind, asked, PATIENCE).await?;
        }
        Ok(exact.then_some(asked))
    }
}

impl Head {
    /// The list as JSON, in parts. The items are those of the store, not copies.
    fn with(&self, items: &[Arc<Object>]) -> Vec<Bytes> {
        const COMMA: Bytes = Bytes::from_static(b",");
        let mut head = serde_json::to_string(self).unwrap_or_default();
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
}

impl Call {
    /// The namespace, labels and fields that the request selects; a name in the path counts.
    pub(super) fn selector(&self) -> Result<Selector, ApiError> {
        let Self { route, query, .. } = self;
        let name = route.name.iter().map(|name| format!("metadata.name={name}"));
        let fields: Vec<String> = name.chain([query.fields.clone()]).collect();
        Selector::parse(route.kind, route.namespace.as_deref(), &query.labels, &fields.join(","))
    }
}

fn write_token(rv: u64, last: &str) -> String {
    URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": rv, "start": last}).to_string())
}

fn read_token(token: &str) -> Result<(u64, String), ApiError> {
    let read = || {
        let token: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
        Some((token["rv"].as_u64()?, token["start"].as_str()?.to_owned()))
    };
    read().ok_or_else(|| ApiError::bad_request("continue key is not valid"))
}
