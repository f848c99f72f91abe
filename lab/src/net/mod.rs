//! Nodes, pods and an external host as network namespaces: a CNI and an underlay on the real kernel datapath.
//!
//! ```text
//!   pod eth0 ── veth ┐                                  ┌ veth ── eth0 pod
//!   pod eth0 ── veth ┴ node-a ── eth0 ┬─ fabric ─┬ eth0 ── node-b ┴ veth ── eth0 pod
//!                                     └── eth0 external
//! ```

mod ip;
mod netns;
mod topology;

pub use netns::NetNs;
pub use topology::{Cni, Node, Overlay, PodNet, Topology, TopologyOptions};
