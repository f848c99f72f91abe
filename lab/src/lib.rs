//! The lab: a real kernel datapath, real sockets and an embedded API server, to demonstrate and test epguard.

pub mod agent;
pub mod api;
pub mod demo;
mod files;
pub mod neighbour;
pub mod net;
pub mod proxy;
pub mod replay;
pub mod scenario;
pub mod socket_lb;
pub mod traffic;
mod wait;
