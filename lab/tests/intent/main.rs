//! What becomes of a packet's intent between From and To on the real kernel: right, or lost and counted, never wrong.
//!
//! Service S and Service T lead to the same pod X and the same port; only S is denied. What a packet is aimed at is known
//! independently of epguard: from the destination that its sender used, repeated in the datagram itself.

#[cfg(test)]
mod aim;
#[cfg(test)]
mod carriers;
#[cfg(test)]
mod foreign;
#[cfg(test)]
#[allow(dead_code, reason = "the tests about rejecting use all of it")]
mod hooks;
#[cfg(test)]
mod neighbours;
#[cfg(test)]
mod outdated;
#[cfg(test)]
mod pods;
#[cfg(test)]
mod receive;
#[cfg(test)]
mod sink;
#[cfg(test)]
mod sockets;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod tcx;
#[cfg(test)]
mod tunnel;
#[cfg(test)]
mod world;
