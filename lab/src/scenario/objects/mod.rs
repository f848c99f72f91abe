//! Builds API objects like those of a Kubernetes 1.36 cluster from a story's few fields.

mod clock;
mod managed;
mod node;
mod pod;
mod service;
mod slice;

pub use clock::Clock;
pub use node::node;
pub use pod::{Container, Phase, PodName, PodObject};
pub use service::{Frontends, service};
pub use slice::{Endpoint, slice};

/// A readable UID: the `number`th of its `kind`.
pub fn uid(kind: u16, number: usize) -> String {
    format!("{number:08x}-{kind:04x}-4000-8000-{number:012x}")
}
