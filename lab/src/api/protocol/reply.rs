//! HTTP responses.

use std::convert::Infallible;

use futures::{Stream, StreamExt};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

use super::joined::Joined;
use crate::api::ApiError;

/// A whole object or an endless stream.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The end of each object.
const END: Bytes = Bytes::from_static(b"\n");

/// A response with one object.
pub(super) fn json(code: StatusCode, object: &impl Serialize) -> Response<Body> {
    bytes(code, "application/json", line(object).into())
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

/// A response with JSON in parts.
pub(super) fn parts(mut parts: Vec<Bytes>) -> Response<Body> {
    parts.push(END);
    respond(StatusCode::OK, "application/json", Joined::new(parts).boxed_unsync())
}

/// A response with a stream of lines.
pub(super) fn stream(lines: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let frames = lines.map(|line| Ok(Frame::data(line)));
    respond(StatusCode::OK, "application/json", StreamBody::new(frames).boxed_unsync())
}

fn line(object: &impl Serialize) -> String {
    // All objects here have string keys, so serialization always succeeds.
    serde_json::to_string(object).unwrap_or_default() + "\n"
}

fn respond(code: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
