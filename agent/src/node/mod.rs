//! What the node's kernel reports about its interfaces and routes.

pub mod netlink;
