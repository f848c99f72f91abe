//! What clients see when the node they go through rejects: their own sockets' errors, how soon, and what it does to the
//! node. The cluster is that of the tests about intents: Service S is denied its endpoint, pod X.

#[cfg(test)]
#[allow(dead_code, reason = "made for the tests about intents")]
#[path = "../intent/aim.rs"]
mod aim;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod direct;
#[cfg(test)]
mod flood;
#[cfg(test)]
#[allow(dead_code, reason = "made for the tests about intents")]
#[path = "../intent/hooks.rs"]
mod hooks;
#[cfg(test)]
mod nobody;
#[cfg(test)]
mod offload;
#[cfg(test)]
#[allow(dead_code, reason = "made for the tests about intents")]
#[path = "../intent/sink.rs"]
mod sink;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod table;
#[cfg(test)]
mod tunnel;
#[cfg(test)]
mod wire;
#[cfg(test)]
#[allow(dead_code, reason = "made for the tests about intents")]
#[path = "../intent/world.rs"]
mod world;
