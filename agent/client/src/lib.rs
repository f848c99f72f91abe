//! What the node's verbs and kubectl's plugin share. It builds for Linux, macOS and Windows: what
//! reads maps, netlink or the agent's socket is in the crate `epguard`.

pub mod answers;
pub mod lint;
pub mod shared;
pub mod watch;
