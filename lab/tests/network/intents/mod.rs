//! What the hooks read from conntrack on the real kernel: the Service that each packet was aimed
//! at, or nothing, never another one.
//!
//! Service S and Service T lead to the same pod X and the same port; only S is denied. The aim of a
//! packet is known independently of epguard: by the destination that its sender used, repeated in
//! the datagram itself.

pub(crate) mod clients;
pub mod figures;
mod proxies;
mod streams;
mod tunnel;
mod untracked;
mod waiting;
pub mod world;
