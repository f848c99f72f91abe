//! What stays in the kernel, what is taken over, what is removed: on network namespaces and a bpffs of each test's own.

mod agent;
mod cgroup;
mod chain;
mod detach;
mod gate;
mod lifts;
mod maps;
mod node;
mod open;
mod orphan_ip;
mod socket_lb;
mod switch;
mod tagged;
mod takeover;
mod traffic;
mod tunnel;
mod uplink;
mod waiting;
mod xdp;
