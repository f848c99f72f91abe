//! Errors at interfaces: logs them, or detects that the interface has gone.

/// Logs an error after which the agent continues.
pub fn warn_of(error: &anyhow::Error, what: &str) {
    tracing::warn!(error = format!("{error:#}"), "{what}");
}

/// True if an interface was deleted between its announcement and the attachment.
pub fn vanished(error: &anyhow::Error) -> bool {
    let gone = |error: &std::io::Error| matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO));
    error
        .chain()
        .any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(gone))
}
