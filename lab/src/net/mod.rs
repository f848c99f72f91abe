//! Nodes, pods and an external host as network namespaces: a CNI and an underlay on the real kernel
//! datapath.
//!
//! ```text
//!   pod eth0 ── veth ┐                                  ┌ veth ── eth0 pod
//!   pod eth0 ── veth ┴ node-a ── eth0 ┬─ fabric ─┬ eth0 ── node-b ┴ veth ── eth0 pod
//!                                     └── eth0 external
//! ```

mod cgroups;
mod cni;
mod ip;
mod netns;
mod node;
mod sysctl;
mod topology;

pub use cgroups::{NetCls, SocketRoot, socket_in};
pub use cni::PodNet;
pub use netns::{NetNs, netns_cookie};
pub use node::Node;
pub use topology::{Cni, Overlay, Topology, TopologyOptions};
