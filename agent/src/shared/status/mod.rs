//! The status, and the socket that serves it.

mod socket;

pub use epguard_client::shared::status::*;
pub use socket::{Question, Request, accepted, ask, current, serve};
