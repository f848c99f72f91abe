//! Real clients and servers in the lab's namespaces. A server answers every request with its pod's name.

mod abort;
mod client;
mod flood;
mod flow;
mod forge;
mod outcome;
mod server;
mod sniffer;
mod udp;

pub use abort::abort;
pub use client::Client;
pub use flood::Flood;
pub use flow::Flow;
pub use forge::Forged;
pub use outcome::{Answer, Call, Outcome};
pub use server::{Port, Server};
pub use sniffer::Sniffer;
pub use udp::UdpPeer;
