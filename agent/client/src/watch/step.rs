//! One request of a watch to the API server, and how it ended.

/// One request to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Step {
    /// The complete list as events, then changes (KEP-3157 `WatchList`, the server's default since
    /// 1.34).
    #[default]
    Stream,
    /// The complete list in pages.
    Pages,
    /// The complete list in one answer, or a part of it.
    List,
    /// The complete list for a command, in pages.
    Once,
    /// Changes after a resourceVersion.
    Watch(u64),
}

/// How a request ended. The protocol decides by it what to ask next, and how long to wait before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub(super) enum End {
    /// A list is complete: all pages were read, or the stream has shown the one object that is
    /// watched from now on.
    Listed,
    /// The server closed the stream in order, as it does after every timeout.
    Closed,
    /// Another list was ordered.
    Relist,
    /// 410: the history before a resourceVersion, or the snapshot under a continue token, is gone.
    Expired,
    /// The server doesn't stream lists.
    Unsupported,
    /// Neither event nor bookmark for so long that the connection must be dead.
    Silent,
    /// No connection, or a broken one.
    Unanswered,
    /// The server does not let the account read this.
    Refused,
    /// Anything else.
    Failed,
}
