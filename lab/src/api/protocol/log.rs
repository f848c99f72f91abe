//! `pods/log`: the whole log at once, without options.

use hyper::{Method, Response, StatusCode};

use super::Api;
use super::reply::{self, Body};
use crate::api::{ApiError, ObjectRef};

/// The pod, if the path is that of its `log`.
pub(super) fn pod(path: &str) -> Option<ObjectRef> {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    match segments.as_slice() {
        ["api", "v1", "namespaces", namespace, "pods", pod, "log"] => Some(ObjectRef::pod(namespace, pod)),
        _ => None,
    }
}

impl Api {
    /// Sends the log of a pod. An earlier container's log is in that of the last one.
    pub(super) fn log(&self, method: &Method, pod: &ObjectRef) -> Result<Response<Body>, ApiError> {
        if *method != Method::GET {
            return Err(ApiError::new(405, "MethodNotAllowed", "a log can only be read"));
        }
        self.store.get(pod).ok_or_else(|| ApiError::not_found(pod))?;
        let log = self.logs.of(&pod.name)?;
        Ok(reply::bytes(StatusCode::OK, "text/plain", log.into()))
    }
}
