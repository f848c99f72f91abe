//! HTTP responses.

use std::convert::Infallible;

use futures::{Stream, StreamExt, stream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::Value;

/// A whole object or an endless stream.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

const JSON: &str = "application/json";

/// A response with one object.
pub(super) fn json(code: StatusCode, object: &Value) -> Response<Body> {
    bytes(code, JSON, format!("{object}\n").into())
}

/// A response with raw bytes.
pub(super) fn bytes(code: StatusCode, content_type: &'static str, bytes: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(bytes).boxed_unsync());
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A response with JSON in parts, which are copied together only as they are sent: a list of 600 MB
/// needs no second 600 MB.
pub(super) fn parts(parts: Vec<Bytes>) -> Response<Body> {
    const TOGETHER: usize = 64;
    send(
        stream::iter(parts)
            .chunks(TOGETHER)
            .map(|parts| parts.concat().into()),
    )
}

/// A response with a stream of JSON.
pub(super) fn send(json: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let frames = json.map(|piece| Ok(Frame::data(piece)));
    bytes(StatusCode::OK, JSON, Bytes::new()).map(|_| StreamBody::new(frames).boxed_unsync())
}
