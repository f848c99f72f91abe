//! The writer of an object.

/// The writer as recorded in `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) manager: String,
    /// "Update", or "Apply" for server-side apply.
    pub(crate) operation: &'static str,
    /// True for writes to `/status`.
    pub(crate) status: bool,
}

impl Writer {
    pub(crate) fn update(manager: &str) -> Self {
        Self {
            manager: manager.into(),
            operation: "Update",
            status: false,
        }
    }
}
