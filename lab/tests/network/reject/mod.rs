//! Clients' results when the node on their path rejects: their sockets' errors, after what time,
//! and the effect on the node. The cluster is that of the tests about conntrack: Service S is
//! denied its endpoint, pod X.

mod bridge;
mod cluster;
mod devices;
mod direct;
mod flood;
mod table;

use super::intents::{figures, world};
