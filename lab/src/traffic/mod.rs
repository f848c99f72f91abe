//! Real clients and servers in the lab's namespaces. A server answers every request with its pod's name.

mod client;
mod flow;
mod forge;
mod outcome;
mod server;
mod sniffer;
mod udp;

pub use client::Client;
pub use flow::{Flow, abort};
pub use forge::{Flood, Forged};
pub use outcome::{Answer, Call, Outcome};
pub use server::Server;
pub use sniffer::Sniffer;
pub use udp::UdpPeer;
