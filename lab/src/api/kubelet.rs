//! Commands in pods and logs of pods: a test decides, in place of a kubelet.

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

type Handler<Q, A> = dyn Fn(&Q) -> A + Send + Sync;

/// What a test answers to questions of one kind.
pub struct Answers<Q: ?Sized, A>(Mutex<Option<Arc<Handler<Q, A>>>>);

/// What runs commands in the pods of a server (`kubectl exec`).
pub type Execs = Answers<Exec, Run>;

/// The logs of the pods of a server by the pods' names (`kubectl logs`); none: the pod has no log.
pub type Logs = Answers<str, Option<String>>;

impl<Q: ?Sized, A> Answers<Q, A> {
    /// Answers every question from now on.
    pub fn answer(&self, handler: impl Fn(&Q) -> A + Send + Sync + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(handler));
    }

    /// None if no test answers.
    pub(super) fn ask(&self, question: &Q) -> Option<A> {
        let handler = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(handler(question))
    }
}

impl<Q: ?Sized, A> Default for Answers<Q, A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
