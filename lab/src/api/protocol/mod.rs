//! Turns HTTP requests into store calls, and their results into responses.

mod discovery;
mod event;
mod exec;
mod log;
mod protobuf;
mod reply;
mod request;
mod review;
mod service_ip;
mod verbs;
mod watch;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, USER_AGENT};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use serde_json::Value;
use tokio::sync::watch::Receiver;

use super::{Access, ApiError, Audit, Faults, Kind, LoggedRequest, ObjectRef, Store};
pub use exec::{Exec, Execs, Run};
pub use log::Logs;
use reply::Body;
pub(super) use request::Route;
use request::{Query, verb};

/// The API of one server.
pub struct Api {
    pub(super) store: Store,
    pub(super) faults: Receiver<Faults>,
    pub(super) token: String,
    /// The requests received so far.
    pub audit: Audit,
    /// The access rules of the user: everything is allowed until a role is bound.
    pub access: Access,
    /// What runs commands in pods.
    pub execs: Execs,
    /// Where the logs of pods are.
    pub logs: Logs,
}

/// A request for a resource, read completely.
struct ApiCall {
    kind: Kind,
    route: Route,
    query: Query,
    headers: HeaderMap,
    body: Bytes,
}

impl Api {
    /// Answers one request; errors become Status objects. The octets of the answer are counted as
    /// they are sent.
    pub(crate) async fn handle(&self, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let route = Route::parse(parts.uri.path());
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let verb = verb(&parts.method, route.as_ref(), query.flag("watch"));
        let logged = LoggedRequest {
            verb: verb.clone(),
            resource: route
                .as_ref()
                .and_then(Route::kind)
                .map_or("", Kind::plural),
            path: parts.uri.path().into(),
            query: parts.uri.query().unwrap_or_default().into(),
            user_agent: header(&parts.headers, USER_AGENT).into(),
            at: Instant::now(),
            sent: Arc::default(),
        };
        let sent = Arc::clone(&logged.sent);
        self.audit.log(logged);
        let answer = self
            .answer(&parts, body, &verb, route, query)
            .await
            .unwrap_or_else(|error| {
                let code =
                    StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                reply::json(code, &error.status())
            });
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
        query: Query,
    ) -> Result<Response<Body>, ApiError> {
        let delay = self.faults.borrow().delay;
        tokio::time::sleep(delay).await;
        if header(&parts.headers, AUTHORIZATION).strip_prefix("Bearer ") != Some(&self.token) {
            return Err(ApiError::new(401, "Unauthorized", "Unauthorized"));
        }
        // Discovery is for every user.
        let Some(route) = route else {
            return discovery::answer(parts.uri.path());
        };
        if review::is_asked(verb, &route) {
            return self.review(body).await;
        }
        self.access.check(verb, &route)?;
        let kind = route.kind().ok_or_else(ApiError::unknown_path)?;
        if self.faults.borrow().forbidden.contains(&kind) {
            let message = format!(
                "{} is forbidden: User \"lab\" cannot access it",
                kind.plural()
            );
            return Err(ApiError::new(403, "Forbidden", message));
        }
        match route.subresource.as_deref() {
            Some("exec") => return self.exec(parts, &route),
            Some("log") => return self.log(&route),
            _ => {}
        }
        if query.text("dryRun").is_some() {
            return Err(ApiError::bad_request("dryRun is not served here"));
        }
        let call = ApiCall {
            kind,
            route,
            query,
            headers: parts.headers.clone(),
            body: read(body).await?,
        };
        match (verb, call.route.name.is_some()) {
            ("watch", _) => self.watch(&call).await,
            ("get", _) => self.get(&call),
            ("list", _) => self.list(&call).await,
            ("create", false) => self.create(&call),
            ("update" | "patch", true) => self.update(&call, verb),
            ("delete", _) => self.delete(&call),
            _ => Err(ApiError::new(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )),
        }
    }
}

impl ApiCall {
    fn target(&self) -> Result<ObjectRef, ApiError> {
        self.route.target(self.kind, None)
    }

    /// The body as JSON.
    fn object(&self) -> Result<Value, ApiError> {
        if header(&self.headers, CONTENT_TYPE) == protobuf::PROTOBUF {
            return protobuf::decode(&self.body);
        }
        serde_json::from_slice(&self.body)
            .map_err(|e| ApiError::bad_request(format!("body is not JSON: {e}")))
    }
}

/// A whole body.
async fn read(body: Incoming) -> Result<Bytes, ApiError> {
    let body = body
        .collect()
        .await
        .map_err(|e| ApiError::bad_request(format!("cannot read the body: {e}")))?;
    Ok(body.to_bytes())
}

/// A header that is text; empty without one.
fn header(headers: &HeaderMap, name: HeaderName) -> &str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}
