//! The log of a pod's container: a test has it, in place of a kubelet.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::ApiError;

type Handler = dyn Fn(&str) -> Option<String> + Send + Sync;

/// What reads the logs of the pods of a server (`kubectl logs`). Clones share it.
#[derive(Clone, Default)]
pub struct Logs(Arc<Mutex<Option<Arc<Handler>>>>);

impl Logs {
    /// From now on a pod's log is what `handler` returns for its name; none: the pod has no log.
    pub fn answer(&self, handler: impl Fn(&str) -> Option<String> + Send + Sync + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(handler));
    }

    /// Errors: no test has this pod's log.
    pub(super) fn of(&self, pod: &str) -> Result<String, ApiError> {
        let handler = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let log = handler.and_then(|handler| handler(pod));
        log.ok_or_else(|| ApiError::new(500, "InternalError", "no kubelet has the log of this pod"))
    }
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Logs")
    }
}
