//! A load balancer at sockets: programs of a cgroup that translate the address of a system call, as
//! Cilium does where it replaces kube-proxy. No packet ever carries a cluster IP.
//!
//! The model is `bpf/bpf_sock.c` of Cilium as of commit 66382ef3c815; each item names its function
//! there. Left out, since no story needs them: health checks, L7 and local-redirect Services, node
//! ports, external IPs, binds, traces.
//!
//! It differs in one thing: the programs act only on sockets of the network namespaces in
//! NAMESPACES, and backends of TCP take turns instead of being drawn (`sock_select_slot()`), so
//! that a story is the same each time.

mod affinity;
mod context;
pub mod maps;
mod programs;
mod reverse;
pub mod translate;
