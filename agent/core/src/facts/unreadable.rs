//! Why an object of the API could not be read.

use std::{error, fmt};

/// The cause, for a log line.
#[derive(Debug)]
pub struct Unreadable(String);

impl Unreadable {
    /// An error with this cause.
    #[must_use]
    pub fn because(cause: impl Into<String>) -> Self {
        Self(cause.into())
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for Unreadable {}

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}
