//! HTTP responses.

use std::convert::Infallible;

use futures::{Stream, StreamExt};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::api::ApiError;

/// A whole object or an endless stream.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

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

/// A response with a stream of objects, one per line.
pub(super) fn stream<T: Serialize>(objects: impl Stream<Item = T> + Send + 'static) -> Response<Body> {
    let frames = objects.map(|object| Ok(Frame::data(Bytes::from(line(&object)))));
    respond(
        StatusCode::OK,
        "application/json",
        StreamBody::new(frames).boxed_unsync(),
    )
}

fn line(object: &impl Serialize) -> String {
    // All objects here have string keys, so serialization always succeeds.
    serde_json::to_string(object).unwrap_or_default() + "\n"
}

fn respond(code: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
