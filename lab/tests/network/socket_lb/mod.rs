//! The lab's load balancer at sockets behaves as Cilium's.

mod translate;
mod world;
