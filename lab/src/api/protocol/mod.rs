//! Turns HTTP requests into store calls, and their results into responses.

mod counted;
mod discovery;
mod event;
mod exec;
mod joined;
mod list;
mod log;
mod query;
mod reply;
mod route;
mod watch;
mod write;

use std::fmt::Display;
use std::time::Instant;

use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Bytes};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, USER_AGENT};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::Value;
use tokio::sync::watch::Receiver;

use super::{Access, Audit, Execs, Faults, Logs, Request as Logged};
use super::{ApiError, Store, access::verb, yaml};
use counted::Counted;
use query::Query;
use reply::Body;
use route::Route;

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

    /// Answers one request; errors become Status objects.
    pub(crate) async fn handle<B: HttpBody<Error: Display>>(&self, request: Request<B>) -> Response<Counted> {
        let (parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let asked = (Route::parse(parts.uri.path()), query);
        let sent = self.audit.log(logged(&parts, &asked));
        let answer = self.answer(&parts, body, asked).await;
        let answer = answer.unwrap_or_else(|error| reply::error(&error));
        answer.map(|body| Counted { body, sent })
    }

    async fn answer<B: HttpBody<Error: Display>>(
        &self,
        parts: &Parts,
        body: B,
        (route, parsed): Asked,
    ) -> Result<Response<Body>, ApiError> {
        let path = parts.uri.path();
        let delay = self.faults.borrow().delay;
        tokio::time::sleep(delay).await;
        if let Some(code) = self.faults.borrow().failing {
            return Err(ApiError::new(code, "InternalError", "the server is failing"));
        }
        self.authenticate(&parts.headers)?;
        let watch = parsed.as_ref().is_ok_and(|query| query.watch);
        self.access.check(&parts.method, path, watch)?;
        if let Some(pod) = exec::pod(path) {
            return self.exec(parts, pod).await;
        }
        if let Some(pod) = log::pod(path) {
            return self.log(&parts.method, &pod);
        }
        let Some(route) = route else {
            return match path {
                "/audit" => Ok(reply::json(StatusCode::OK, &self.audit.loads())),
                path => discovery::answer(path),
            };
        };
        if self.faults.borrow().forbidden.contains(&route.kind) {
            let message = format!("{} is forbidden: User \"lab\" cannot access it", route.kind.plural());
            return Err(ApiError::new(403, "Forbidden", message));
        }
        let body =
            body.collect().await.map_err(|e| ApiError::bad_request(format!("cannot read the body: {e}")))?;
        let call = Call { route, query: parsed?, headers: parts.headers.clone(), body: body.to_bytes() };
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
            Method::GET if named && !call.query.watch => self.get(call),
            Method::GET if call.query.watch => self.watch(call).await,
            Method::GET => self.list(call).await,
            Method::POST if !named => self.create(call),
            Method::PUT if named => self.replace(call),
            Method::PATCH if named => self.patch(call),
            Method::DELETE if named => self.delete(call),
            Method::DELETE => self.delete_all(call),
            _ => Err(ApiError::new(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )),
        }
    }
}

/// A request's path and query; the path may name no resource, and the query may be wrong.
type Asked = (Option<Route>, Result<Query, ApiError>);

/// A request as the audit log shows it.
fn logged(parts: &Parts, asked: &Asked) -> Logged {
    let verb = match asked {
        (Some(route), Ok(query)) => verb(&parts.method, route.name.is_some(), query.watch),
        _ => parts.method.as_str().to_lowercase(),
    };
    let client = parts.headers.get(USER_AGENT);
    Logged {
        verb,
        resource: asked.0.as_ref().map_or("", |route| route.kind.plural()),
        path: parts.uri.path().into(),
        query: parts.uri.query().unwrap_or_default().into(),
        user_agent: client.and_then(|agent| agent.to_str().ok()).unwrap_or_default().to_owned(),
        at: Instant::now(),
        octets: 0,
    }
}

impl Call {
    /// The body as JSON, or as YAML if its content type is YAML.
    fn object(&self) -> Result<Value, ApiError> {
        let content_type = self.header(CONTENT_TYPE);
        if content_type.contains("protobuf") {
            let message = "protobuf is not served here: send JSON or YAML (kubectl apply -f does)";
            return Err(ApiError::new(415, "UnsupportedMediaType", message));
        }
        if content_type.contains("yaml") {
            let text =
                std::str::from_utf8(&self.body).map_err(|e| ApiError::bad_request(format!("body: {e}")))?;
            let mut documents =
                yaml::documents(text).map_err(|e| ApiError::bad_request(format!("body is not YAML: {e}")))?;
            return documents.pop().ok_or_else(|| ApiError::bad_request("body is empty"));
        }
        serde_json::from_slice(&self.body)
            .map_err(|e| ApiError::bad_request(format!("body is not JSON: {e}")))
    }

    fn header(&self, name: hyper::header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The name of the writer: `fieldManager`, else the program in the User-Agent.
    fn manager(&self) -> &str {
        let agent = self.header(USER_AGENT).split('/').next().unwrap_or_default();
        let manager = if self.query.field_manager.is_empty() { agent } else { &self.query.field_manager };
        if manager.is_empty() { "unknown" } else { manager }
    }
}
