//! The requests a server received, and the octets of its answers, so that tests and benchmarks can
//! count API load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// One request, logged when it arrives.
#[derive(Clone, Debug)]
pub struct LoggedRequest {
    /// As Kubernetes calls it: get, list, watch, create, update, patch, delete, deletecollection;
    /// or the HTTP method.
    pub verb: String,
    /// The resource's name in URLs, such as `pods`; empty for discovery.
    pub resource: &'static str,
    /// Path of the URL.
    pub path: String,
    /// Query of the URL, as sent.
    pub query: String,
    /// The client's `User-Agent`; empty without one.
    pub user_agent: String,
    /// When it arrived.
    pub at: Instant,
    pub(super) sent: Arc<AtomicU64>,
}

impl LoggedRequest {
    /// Octets of the answer's body that were sent so far, without HTTP and TLS around it.
    pub fn octets(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

/// A log of requests.
#[derive(Debug, Default)]
pub struct Audit(Mutex<Vec<LoggedRequest>>);

impl Audit {
    /// Every request so far, oldest first.
    pub fn requests(&self) -> Vec<LoggedRequest> {
        self.logged().clone()
    }

    /// How many requests so far had this verb and, somewhere in their path, this text.
    pub fn count(&self, verb: &str, path: &str) -> usize {
        self.logged()
            .iter()
            .filter(|request| request.verb == verb && request.path.contains(path))
            .count()
    }

    /// Starts over. Streams that are open now are not counted any more.
    pub fn clear(&self) {
        self.logged().clear();
    }

    pub(super) fn log(&self, request: LoggedRequest) {
        self.logged().push(request);
    }

    fn logged(&self) -> MutexGuard<'_, Vec<LoggedRequest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
