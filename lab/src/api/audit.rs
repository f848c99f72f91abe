//! The requests a server received, so that tests can count API load.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// One request, logged when it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// As Kubernetes calls it: get, list, watch, create, update, patch, delete, deletecollection; or the HTTP method.
    pub verb: String,
    /// Path of the URL.
    pub path: String,
    /// Query of the URL, as sent.
    pub query: String,
    /// The client's `User-Agent`; empty without one.
    pub user_agent: String,
    /// When it arrived.
    pub at: Instant,
}

/// A log of requests; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Audit(Arc<Mutex<Vec<Request>>>);

impl Audit {
    /// Every request so far, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many requests so far had this verb and, somewhere in their path, this text.
    #[must_use]
    pub fn count(&self, verb: &str, path: &str) -> usize {
        self.requests()
            .iter()
            .filter(|r| r.verb == verb && r.path.contains(path))
            .count()
    }

    /// Starts over.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn log(&self, request: Request) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(request);
    }
}
