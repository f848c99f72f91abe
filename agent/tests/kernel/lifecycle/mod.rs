//! What stays in the kernel, what is taken over, what is removed: on network namespaces and a bpffs of each test's own.

mod agent;
mod detach;
mod gate;
mod hooks;
mod layouts;
mod lifts;
mod maps;
pub(crate) mod node;
mod orphan_ip;
mod socket_lb;
mod switch;
mod takeover;
mod traffic;
mod tunnel;
mod uplink;
mod xdp;
