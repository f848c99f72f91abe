//! From a request to the store and back.

use super::server::Context;
use super::store::{DeleteOptions, Part, Patch, Selector};
use super::watch::{Options, Stream};
use super::{ApiError, Kind, ObjectRef, discovery};
use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode, Uri, header::CONTENT_TYPE};
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// What a path names.
#[derive(Debug)]
struct Place {
    kind: Kind,
    namespace: String,
    name: Option<String>,
    part: Part,
}

/// Answers a request that is authenticated.
pub(super) fn answer(context: &Context, method: &Method, uri: &Uri, media: &str, body: &Bytes) -> Response {
    if let Some(document) = discovery::document(uri.path()) {
        return json_response(StatusCode::OK, &document);
    }
    match uri.path() {
        "/healthz" | "/readyz" | "/livez" => return Response::new(Body::from("ok")),
        // An empty OpenAPI document: kubectl knows no schema, so it validates nothing.
        "/openapi/v2" => return typed("application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
        _ => {}
    }
    serve(context, method, uri, media, body).unwrap_or_else(|error| failure(&error))
}

fn serve(
    context: &Context,
    method: &Method,
    uri: &Uri,
    media: &str,
    body: &Bytes,
) -> Result<Response, ApiError> {
    let place = place(uri.path()).ok_or_else(|| ApiError::not_found(format!("path {}", uri.path())))?;
    if context.faults.borrow().forbidden.contains(&place.kind) {
        let what = place.kind.plural();
        return Err(ApiError::new(
            403,
            "Forbidden",
            format!("{what} is forbidden: the user cannot list resource {what:?}"),
        ));
    }
    let query: HashMap<String, String> =
        url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
            .into_owned()
            .collect();
    let Some(name) = &place.name else {
        return match *method {
            Method::GET => collection(context, &place, &query),
            Method::POST => {
                let mut object = read(media, body)?;
                if !place.namespace.is_empty() {
                    object["metadata"]["namespace"] = json!(place.namespace);
                }
                object["kind"] = json!(place.kind.name());
                Ok(json_response(
                    StatusCode::CREATED,
                    &context.store.create(object, Part::Main)?,
                ))
            }
            _ => Err(method_not_allowed(method)),
        };
    };
    let id = ObjectRef::new(place.kind, &place.namespace, name);
    let object = match *method {
        Method::GET => context.store.get(&id).ok_or_else(|| ApiError::not_found(&id))?,
        Method::PUT => context.store.replace(&id, read(media, body)?, place.part)?,
        Method::PATCH => patch(context, &id, media, body, place.part)?,
        Method::DELETE => context.store.delete(&id, &delete_options(body, &query))?,
        _ => return Err(method_not_allowed(method)),
    };
    Ok(json_response(StatusCode::OK, &object))
}

fn patch(
    context: &Context,
    id: &ObjectRef,
    media: &str,
    body: &Bytes,
    part: Part,
) -> Result<Value, ApiError> {
    let change = read(media, body)?;
    let patch = match media.split(';').next().unwrap_or_default() {
        "application/json-patch+json" => Patch::Json(change),
        "application/strategic-merge-patch+json" => Patch::Strategic(change),
        "application/apply-patch+yaml" if context.store.get(id).is_none() => {
            return context.store.create(change, Part::Main);
        }
        "application/merge-patch+json" | "application/apply-patch+yaml" => Patch::Merge(change),
        other => {
            return Err(ApiError::new(
                415,
                "UnsupportedMediaType",
                format!("patch of type {other:?}"),
            ));
        }
    };
    context.store.patch(id, &patch, part)
}

fn collection(
    context: &Context,
    place: &Place,
    query: &HashMap<String, String>,
) -> Result<Response, ApiError> {
    let text = |key: &str| query.get(key).map(String::as_str).unwrap_or_default();
    let flag = |key: &str| matches!(text(key), "1" | "true");
    let selector = Selector::parse(&place.namespace, text("fieldSelector"), text("labelSelector"))?;
    let version = match text("resourceVersion") {
        "" => None,
        digits => Some(
            digits
                .parse()
                .map_err(|_| ApiError::bad_request(format!("invalid resource version: {digits:?}")))?,
        ),
    };
    if !flag("watch") {
        return list(context, place.kind, &selector, version, query);
    }
    let initial = flag("sendInitialEvents");
    if initial && context.faults.borrow().no_streaming_lists {
        return Err(ApiError::invalid(
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        ));
    }
    if initial && text("resourceVersionMatch") != "NotOlderThan" {
        return Err(ApiError::invalid(
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    let options = Options {
        kind: place.kind,
        selector,
        version,
        initial,
        bookmarks: flag("allowWatchBookmarks"),
        timeout: Duration::from_secs(text("timeoutSeconds").parse().unwrap_or(1800)),
        period: context.bookmark_period,
    };
    let stream = Stream::open(context.store.clone(), options, context.faults.clone())?;
    let lines = futures::stream::unfold(stream, async |mut stream| {
        let line = stream.next().await?;
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(line)), stream))
    });
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    Ok(response)
}

/// A page, or everything. A continue token is `version:key`, so all pages show one state.
fn list(
    context: &Context,
    kind: Kind,
    selector: &Selector,
    version: Option<u64>,
    query: &HashMap<String, String>,
) -> Result<Response, ApiError> {
    let exact = query
        .get("resourceVersionMatch")
        .is_some_and(|how| how == "Exact");
    if let Some(asked) = version.filter(|asked| *asked > context.store.version()) {
        return Err(ApiError::too_large(asked, context.store.version()));
    }
    let token = query.get("continue").filter(|token| !token.is_empty());
    let (at, after) = match token.map(|token| {
        token
            .split_once(':')
            .and_then(|(at, key)| Some((at.parse().ok()?, key)))
    }) {
        None => (version.filter(|_| exact), ""),
        Some(Some((at, key))) => (Some(at), key),
        Some(None) => return Err(ApiError::bad_request("continue key is not valid")),
    };
    let snapshot = context.store.snapshot(kind, at)?;
    let at = snapshot.version;
    let limit = query
        .get("limit")
        .and_then(|limit| limit.parse().ok())
        .filter(|limit| *limit > 0)
        .unwrap_or(usize::MAX);
    let mut rest = snapshot
        .objects
        .into_iter()
        .filter(|(key, object)| key.as_str() > after && selector.matches(object));
    let page: Vec<_> = rest.by_ref().take(limit).collect();
    let remaining = rest.count();
    let mut meta = json!({"resourceVersion": at.to_string()});
    if let (true, Some((last, _))) = (remaining > 0, page.last()) {
        meta["continue"] = json!(format!("{at}:{last}"));
        meta["remainingItemCount"] = json!(remaining);
    }
    let items: Vec<Value> = page
        .into_iter()
        .map(|(_, object)| Value::clone(&object))
        .collect();
    let list = json!({
        "kind": format!("{}List", kind.name()), "apiVersion": kind.api_version(), "metadata": meta, "items": items,
    });
    Ok(json_response(StatusCode::OK, &list))
}

fn place(path: &str) -> Option<Place> {
    let (group, rest) = match path.strip_prefix("/api/v1/") {
        Some(rest) => ("", rest),
        None => (
            "discovery.k8s.io",
            path.strip_prefix("/apis/discovery.k8s.io/v1/")?,
        ),
    };
    let parts: Vec<&str> = rest.split('/').collect();
    let (namespace, parts) = match parts.as_slice() {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() && rest != ["status"] => (*namespace, rest),
        all => ("", all),
    };
    let (plural, name, part) = match parts {
        [plural] => (plural, None, Part::Main),
        [plural, name] => (plural, Some((*name).to_owned()), Part::Main),
        [plural, name, "status"] => (plural, Some((*name).to_owned()), Part::Status),
        _ => return None,
    };
    Some(Place {
        kind: Kind::by_plural(group, plural)?,
        namespace: namespace.to_owned(),
        name,
        part,
    })
}

fn delete_options(body: &Bytes, query: &HashMap<String, String>) -> DeleteOptions {
    let asked: Value = serde_json::from_slice(body).unwrap_or_default();
    let grace = asked["gracePeriodSeconds"].as_i64();
    DeleteOptions {
        grace: grace.or_else(|| query.get("gracePeriodSeconds")?.parse().ok()),
        uid: asked["preconditions"]["uid"].as_str().map(str::to_owned),
    }
}

fn read(media: &str, body: &Bytes) -> Result<Value, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        ApiError::bad_request(format!("the body is not JSON ({error}); content type {media:?}"))
    })
}

fn method_not_allowed(method: &Method) -> ApiError {
    ApiError::new(
        405,
        "MethodNotAllowed",
        format!("the server does not allow {method} here"),
    )
}

const JSON: axum::http::HeaderValue = axum::http::HeaderValue::from_static("application/json");

fn typed(content: &'static str) -> Response {
    let mut response = Response::new(Body::empty());
    response
        .headers_mut()
        .insert(CONTENT_TYPE, axum::http::HeaderValue::from_static(content));
    response
}

/// An error as clients expect it.
pub(super) fn failure(error: &ApiError) -> Response {
    json_response(
        StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        &error.status(),
    )
}

fn json_response(code: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}
