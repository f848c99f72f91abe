//! epguard's programs and maps in the kernel, and what it reads of the kernel's conntrack and of
//! Cilium's maps.

mod btf;
pub mod cilium;
pub mod conntrack;
pub mod datapath;
pub mod maps;
