//! Flows that are redirected to a live endpoint, in bulk: none is lost, mixed up or left behind.

mod bulk;
mod flows;
mod forged;
mod masqueraded;
mod place;
