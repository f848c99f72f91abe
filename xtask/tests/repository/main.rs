//! What the repository promises: manifests that a cluster accepts, and pages that name tests which exist.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod cited;
mod manifests;
