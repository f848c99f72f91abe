//! epguard's programs and maps in the kernel, and its neighbours: foreign programs on the node.

pub mod datapath;
pub mod maps;
pub mod neighbours;
