//! A packet's intent between the ingress and the egress hook on the real kernel: right, or lost and counted, never wrong.
//!
//! Service S and Service T lead to the same pod X and the same port; only S is denied. The aim of a packet is known
//! independently of epguard: by the destination that its sender used, repeated in the datagram itself.

pub mod aim;
mod carriers;
mod foreign;
pub mod hooks;
mod neighbours;
mod outdated;
mod pods;
mod receive;
pub mod sink;
mod sockets;
mod streams;
mod tcx;
mod tunnel;
pub mod world;
