//! An embedded Kubernetes API server: the real protocol over TLS, objects untyped and in memory.
//!
//! `store/` holds objects and their history, `protocol/` turns requests into store calls, `server/`
//! owns sockets, TLS, faults and the audit log. Scenarios write to the [`Store`]; the agent and
//! kubectl come through TLS.

mod access;
mod audit;
mod error;
mod faults;
mod kind;
mod object;
mod patch;
mod protocol;
mod server;
mod store;

pub use access::Access;
pub use audit::{Audit, LoggedRequest};
pub use error::ApiError;
pub use faults::{Faults, Lie, set_dead_status};
pub use kind::{Kind, ObjectRef};
pub use protocol::{Api, Exec, Execs, Logs, Run};
pub use server::ApiServer;
pub use store::Store;
pub(crate) use store::timestamp;

#[cfg(test)]
mod tests;
