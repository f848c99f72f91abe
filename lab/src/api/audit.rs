//! The requests a server received, and the octets of its answers, so that tests and benchmarks can count API load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// One request, logged when it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// As Kubernetes calls it: get, list, watch, create, update, patch, delete, deletecollection; or the HTTP method.
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
    /// Octets of the answer's body that were sent so far, without HTTP and TLS around it.
    pub octets: u64,
}

/// A log of requests.
#[derive(Debug, Default)]
pub struct Audit(Mutex<Vec<Logged>>);

#[derive(Debug)]
struct Logged {
    request: Request,
    octets: Arc<AtomicU64>,
}

impl Audit {
    /// Every request so far, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        let logged = self.logged();
        let shown = logged.iter().map(|logged| Request {
            octets: logged.octets.load(Ordering::Relaxed),
            ..logged.request.clone()
        });
        shown.collect()
    }

    /// How many requests so far had this verb and, somewhere in their path, this text.
    #[must_use]
    pub fn count(&self, verb: &str, path: &str) -> usize {
        self.logged()
            .iter()
            .filter(|logged| logged.request.verb == verb && logged.request.path.contains(path))
            .count()
    }

    /// Starts over. Streams that are open now are not counted any more.
    pub fn clear(&self) {
        self.logged().clear();
    }

    /// Logs a request. Returns the count of its answer's octets.
    pub(crate) fn log(&self, request: Request) -> Arc<AtomicU64> {
        let octets = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&octets);
        self.logged().push(Logged { request, octets });
        counted
    }

    fn logged(&self) -> MutexGuard<'_, Vec<Logged>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
