//! An embedded Kubernetes API server: the real protocol over TLS, objects untyped and in memory.
//!
//! `store/` holds objects and their history, `protocol/` turns requests into store calls, `server/` owns sockets, TLS,
//! faults and the audit log. Scenarios and the replay write to the [`Store`]; the agent and kubectl come through TLS.

pub mod cli;
mod error;
mod kind;
mod patch;
mod protocol;
mod selector;
mod server;
mod store;
pub mod yaml;

pub use error::ApiError;
pub use kind::{Kind, ObjectRef};
pub use server::{Access, ApiServer, Audit, Faults, Lie, Poison, Request};
pub use store::Store;

#[cfg(test)]
mod tests;
