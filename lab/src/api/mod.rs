//! An embedded Kubernetes API server: the real protocol over TLS, for the agent and for `kubectl`, on objects that
//! are plain JSON. No admission, no controllers, no validation beyond names: a story may store anything.

mod cli;
mod discovery;
mod error;
mod faults;
mod kind;
mod routes;
mod server;
mod store;
mod watch;

pub use cli::{Args, run};
pub use error::ApiError;
pub use faults::Faults;
pub use kind::{Kind, ObjectRef};
pub use server::{ApiServer, Request};
pub use store::{DeleteOptions, Patch, Store};
