//! Turns HTTP requests into store calls, and their results into responses.

mod discovery;
mod event;
mod exec;
mod list;
mod reply;
mod request;
mod watch;
mod write;

use std::sync::atomic::Ordering;
use std::time::Instant;

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, USER_AGENT};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::Value;
use tokio::sync::watch::Receiver;

use super::{Access, ApiError, Audit, Execs, Faults, Kind, Logs, ObjectRef, Request as Logged, Store};
use reply::Body;
use request::Query;
pub(super) use request::Route;

/// The API of one server.
#[derive(Debug)]
pub(crate) struct Api {
    store: Store,
    faults: Receiver<Faults>,
    pub(crate) audit: Audit,
    pub(crate) access: Access,
    pub(crate) execs: Execs,
    pub(crate) logs: Logs,
    token: String,
}

/// A request for a resource, read completely.
struct Call {
    kind: Kind,
    route: Route,
    query: Query,
    headers: HeaderMap,
    body: Bytes,
}

impl Api {
    pub(crate) fn new(store: Store, faults: Receiver<Faults>, token: String) -> Self {
        Self {
            store,
            faults,
            audit: Audit::default(),
            access: Access::default(),
            execs: Execs::default(),
            logs: Logs::default(),
            token,
        }
    }

    /// Answers one request; errors become Status objects. The octets of the answer are counted as they are sent.
    pub(crate) async fn handle(&self, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let (route, query) =
            (Route::parse(parts.uri.path()), Query::parse(parts.uri.query().unwrap_or_default()));
        let watch = query.as_ref().is_ok_and(|query| query.watch);
        let verb = verb(&parts.method, route.as_ref(), watch);
        let sent = self.audit.log(logged(&parts, route.as_ref(), verb.clone()));
        let answer = self.answer(&parts, body, &verb, route, query).await;
        let answer = answer.unwrap_or_else(|error| reply::error(&error));
        answer.map(|body| {
            let counted = body.map_frame(move |frame| {
                let octets = frame.data_ref().map_or(0, Bytes::len);
                sent.fetch_add(octets as u64, Ordering::Relaxed);
                frame
            });
            counted.boxed_unsync()
        })
    }

    async fn answer(
        &self,
        parts: &Parts,
        body: Incoming,
        verb: &str,
        route: Option<Route>,
        query: Result<Query, ApiError>,
    ) -> Result<Response<Body>, ApiError> {
        let delay = self.faults.borrow().delay;
        tokio::time::sleep(delay).await;
        if let Some(code) = self.faults.borrow().failing {
            return Err(ApiError::new(code, "InternalError", "the server is failing"));
        }
        self.authenticate(&parts.headers)?;
        // Discovery is for every user.
        let Some(route) = route else { return discovery::answer(parts.uri.path()) };
        self.access.check(verb, &route)?;
        let kind = route.kind().ok_or_else(ApiError::unknown_path)?;
        if self.faults.borrow().forbidden.contains(&kind) {
            let message = format!("{} is forbidden: User \"lab\" cannot access it", kind.plural());
            return Err(ApiError::new(403, "Forbidden", message));
        }
        match route.subresource.as_deref() {
            Some("exec") => return self.exec(parts, &route).await,
            Some("log") => return self.log(&route.target(kind, None)?),
            _ => {}
        }
        let body =
            body.collect().await.map_err(|e| ApiError::bad_request(format!("cannot read the body: {e}")))?;
        let call = Call { kind, route, query: query?, headers: parts.headers.clone(), body: body.to_bytes() };
        self.dispatch(&parts.method, &call).await
    }

    fn authenticate(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        if given == Some(self.token.as_str()) {
            return Ok(());
        }
        Err(ApiError::new(401, "Unauthorized", "Unauthorized"))
    }

    async fn dispatch(&self, method: &Method, call: &Call) -> Result<Response<Body>, ApiError> {
        let named = call.route.name.is_some();
        match *method {
            Method::GET if call.query.watch => self.watch(call).await,
            Method::GET if named => self.get(call),
            Method::GET => self.list(call).await,
            Method::POST if !named => self.create(call),
            Method::PUT if named => self.replace(call),
            Method::PATCH if named => self.patch(call),
            Method::DELETE if named => self.delete(call),
            _ => Err(ApiError::new(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )),
        }
    }

    /// The whole log of a pod at once. An earlier container's log is in that of the last one.
    fn log(&self, pod: &ObjectRef) -> Result<Response<Body>, ApiError> {
        self.store.get(pod).ok_or_else(|| pod.missing())?;
        let log = self.logs.ask(&pod.name).flatten();
        let log = log.ok_or_else(|| ApiError::internal("no kubelet has the log of this pod"))?;
        Ok(reply::bytes(StatusCode::OK, "text/plain", log.into()))
    }
}

/// The verb of a request, as roles and Kubernetes' own audit log call it; of a path without a resource the HTTP method.
fn verb(method: &Method, route: Option<&Route>, watch: bool) -> String {
    let is_named = route.map(|route| route.name.is_some());
    let verb = match (method.as_str(), is_named) {
        (other, None) => other,
        ("GET" | "HEAD", _) if watch => "watch",
        ("GET" | "HEAD", Some(true)) => "get",
        ("GET" | "HEAD", Some(false)) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("DELETE", Some(false)) => "deletecollection",
        (other, _) => other,
    };
    verb.to_lowercase()
}

/// A request as the audit log shows it.
fn logged(parts: &Parts, route: Option<&Route>, verb: String) -> Logged {
    let client = parts.headers.get(USER_AGENT);
    Logged {
        verb,
        resource: route.and_then(Route::kind).map_or("", Kind::plural),
        path: parts.uri.path().into(),
        query: parts.uri.query().unwrap_or_default().into(),
        user_agent: client.and_then(|agent| agent.to_str().ok()).unwrap_or_default().to_owned(),
        at: Instant::now(),
        octets: 0,
    }
}

impl Call {
    fn target(&self) -> Result<ObjectRef, ApiError> {
        self.route.target(self.kind, None)
    }

    /// The body as JSON.
    fn object(&self) -> Result<Value, ApiError> {
        if self.header(CONTENT_TYPE).contains("protobuf") {
            let message = "protobuf is not served here: send JSON (kubectl apply -f does)";
            return Err(ApiError::new(415, "UnsupportedMediaType", message));
        }
        serde_json::from_slice(&self.body)
            .map_err(|e| ApiError::bad_request(format!("body is not JSON: {e}")))
    }

    fn header(&self, name: hyper::header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_verb_that_roles_name() {
        for (method, path, watch, expected) in [
            (Method::GET, "/api/v1/pods", false, "list"),
            (Method::GET, "/api/v1/pods", true, "watch"),
            (Method::GET, "/api/v1/namespaces/a/pods/p", false, "get"),
            (Method::PUT, "/api/v1/namespaces/a/pods/p/status", false, "update"),
            (Method::PATCH, "/api/v1/namespaces/a/pods/p", false, "patch"),
            (Method::POST, "/apis/events.k8s.io/v1/namespaces/a/events", false, "create"),
            (Method::DELETE, "/api/v1/namespaces/a/pods/p", false, "delete"),
            (Method::DELETE, "/api/v1/namespaces/a/pods", false, "deletecollection"),
            (Method::GET, "/version", false, "get"),
        ] {
            assert_eq!(verb(&method, Route::parse(path).as_ref(), watch), expected, "{path}");
        }
    }
}
