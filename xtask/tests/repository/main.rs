//! Checks of the repository: clusters accept the manifests, tests that the pages name exist, and
//! all files name one public place. Scripts are tried with programs that stand for others.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod cited;
mod e2e;
mod manifests;
mod place;
