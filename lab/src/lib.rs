//! The lab: a real kernel datapath, real sockets and an embedded API server, to demonstrate and
//! test epguard.
#![allow(
    clippy::must_use_candidate,
    reason = "its users are the lab's own program, tests and benchmarks"
)]

pub mod agent;
pub mod api;
pub mod counters;
pub mod demo;
pub mod figures;
mod files;
pub mod kubelet;
pub mod neighbour;
pub mod net;
mod object;
pub mod process;
pub mod programs;
pub mod proxy;
pub mod replay;
pub mod scenario;
pub mod socket_lb;
pub mod traffic;
pub mod wait;
pub mod workdir;
