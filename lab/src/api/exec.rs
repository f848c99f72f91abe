//! What a command in a pod does: a test decides, in place of a kubelet.

use std::fmt;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use super::ApiError;

/// A command that a client runs in a pod (`kubectl exec`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// The container; empty: the pod's default.
    pub container: String,
    /// The program and its arguments.
    pub command: Vec<String>,
}

/// What becomes of a command.
#[derive(Debug)]
pub enum Run {
    /// It prints this and ends.
    Prints {
        /// Standard output.
        stdout: Vec<u8>,
        /// Standard error.
        stderr: String,
        /// Exit code.
        code: i32,
    },
    /// The request gets no answer, as while the API server waits for a kubelet.
    Unanswered,
    /// It runs and prints nothing, without end.
    Hangs,
    /// The API server cannot run it, as when it does not reach the kubelet.
    Fails(ApiError),
    /// A process of this machine runs in its place.
    Process(Command),
}

type Handler = dyn Fn(&Exec) -> Run + Send + Sync;

/// What runs commands in the pods of a server. Clones share it.
#[derive(Clone, Default)]
pub struct Execs(Arc<Mutex<Option<Arc<Handler>>>>);

impl Execs {
    /// Answers every command from now on.
    pub fn answer(&self, handler: impl Fn(&Exec) -> Run + Send + Sync + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(handler));
    }

    pub(super) fn run(&self, exec: &Exec) -> Run {
        let handler = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let unreachable = || Run::Fails(ApiError::new(500, "InternalError", "no kubelet runs this pod"));
        handler.map_or_else(unreachable, |handler| handler(exec))
    }
}

impl fmt::Debug for Execs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Execs")
    }
}
