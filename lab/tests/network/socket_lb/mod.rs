//! The lab's load balancer at sockets behaves as Cilium's.

mod life;
mod translate;
mod world;
