//! Checks of the repository: clusters accept the manifests, and tests that the pages name exist.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod cited;
mod manifests;
