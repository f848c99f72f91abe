//! What clients see when the node they go through rejects: their own sockets' errors, how soon, and what it does to the
//! node. The cluster is that of the tests about intents: Service S is denied its endpoint, pod X.

mod cluster;
mod direct;
mod flood;
mod nobody;
mod offload;
mod streams;
mod table;
mod tunnel;
mod wire;

use super::intent::{aim, world};
