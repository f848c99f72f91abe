//! The ways in which a request to the API server, or its stream, fails.

use kube::core::Status;
use std::error::Error;
use std::io;
use std::time::Duration;
use tokio::time::error::Elapsed;

/// What a library reports about a connection or an answer. It is only shown.
type Source = Box<dyn Error + Send + Sync>;

/// Why a request, or its stream, failed. [`Failure::of`](super::failure::Failure::of) decides how
/// the watch continues after each of them.
#[derive(Debug)]
pub(super) enum RequestError {
    /// The server refuses, by an HTTP status or in the middle of a stream.
    Refused(Box<Status>),
    /// There is no connection, a broken one, or an answer that is not the API's.
    Unanswered(Source),
    /// A page of a list has more octets than this.
    TooLarge(u64),
    /// A narrow list shows so many objects, and there are more.
    NotWhole(usize),
    /// A narrow list has this object, which cannot be read.
    Unreadable(String),
    /// Neither an event nor a bookmark came for this long.
    Silent(Duration),
    /// The stream has stopped at a resourceVersion before one that a list or a probe has shown.
    StoppedBehind {
        /// Where the stream has stopped.
        stream: u64,
        /// What the list or the probe has shown.
        elsewhere: u64,
    },
    /// No bookmark of a probe reaches this resourceVersion of a list.
    NoBookmark(u64),
    /// A list is older than what the stream or a proof has shown.
    WentBack(WentBack),
}

/// The API's resourceVersions went back: the API is older than its earlier answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct WentBack {
    /// What the API had shown.
    pub(super) before: u64,
    /// What it shows now.
    pub(super) now: u64,
}

impl std::fmt::Display for WentBack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { before, now } = self;
        write!(
            f,
            "the API went back in time, from resourceVersion {before} to {now}: was etcd restored? \
             Everything is listed again"
        )
    }
}

impl RequestError {
    /// An answer that cannot be read.
    pub(super) fn unreadable_answer(error: anyhow::Error) -> Self {
        Self::Unanswered(error.into())
    }
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            kube::Error::Service(cause) => Self::Unanswered(cause),
            other => Self::Unanswered(other.into()),
        }
    }
}

impl From<kube::core::request::Error> for RequestError {
    fn from(error: kube::core::request::Error) -> Self {
        Self::Unanswered(error.into())
    }
}

impl From<io::Error> for RequestError {
    fn from(error: io::Error) -> Self {
        Self::Unanswered(error.into())
    }
}

impl From<Elapsed> for RequestError {
    fn from(error: Elapsed) -> Self {
        Self::Unanswered(error.into())
    }
}
