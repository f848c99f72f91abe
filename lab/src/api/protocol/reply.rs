//! HTTP responses.

use std::convert::Infallible;

use futures::{Stream, StreamExt, stream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::Value;

use crate::api::ApiError;

/// A whole object or an endless stream.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A response with one object.
pub(super) fn json(code: StatusCode, object: &Value) -> Response<Body> {
    bytes(code, "application/json", format!("{object}\n").into())
}

/// A response with a Status object for an error.
pub(super) fn error(error: &ApiError) -> Response<Body> {
    let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json(code, &error.status())
}

/// A response with raw bytes.
pub(super) fn bytes(code: StatusCode, content_type: &'static str, bytes: Bytes) -> Response<Body> {
    respond(code, content_type, Full::new(bytes).boxed_unsync())
}

/// A response with JSON in parts, which are copied together only as they are sent: a list of 600 MB needs no second 600 MB.
pub(super) fn parts(mut parts: Vec<Bytes>) -> Response<Body> {
    const TOGETHER: usize = 64;
    parts.push(Bytes::from_static(b"\n"));
    send(stream::iter(parts).chunks(TOGETHER).map(|parts| parts.concat().into()))
}

/// A response with a stream of JSON.
pub(super) fn send(json: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let frames = json.map(|piece| Ok(Frame::data(piece)));
    respond(StatusCode::OK, "application/json", StreamBody::new(frames).boxed_unsync())
}

fn respond(code: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
