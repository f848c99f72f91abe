//! Nodes, pods and an external host as network namespaces: a CNI and an underlay on the real kernel datapath.
//!
//! ```text
//!   pod eth0 ── veth ┐                                  ┌ veth ── eth0 pod
//!   pod eth0 ── veth ┴ node-a ── eth0 ┬─ fabric ─┬ eth0 ── node-b ┴ veth ── eth0 pod
//!                                     └── eth0 external
//! ```

mod cni;
mod ip;
mod net_cls;
mod netns;
mod node;
mod socket_root;
mod sysctl;
mod topology;

pub use cni::PodNet;
pub use net_cls::NetCls;
pub use netns::{NetNs, netns_cookie};
pub use node::Node;
pub use socket_root::{SocketRoot, socket_in};
pub use topology::{Cni, Overlay, Topology, TopologyOptions};
