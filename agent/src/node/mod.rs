//! What the node's kernel reports about its interfaces, routes and neighbours.

pub mod netlink;
