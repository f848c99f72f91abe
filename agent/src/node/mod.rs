//! What the node's kernel reports about its interfaces, routes, neighbours and sockets.

pub mod netlink;
pub mod sock_diag;
