//! epguard's programs and maps in the kernel, and the programs of others beside them.

pub mod datapath;
pub mod maps;
pub mod neighbours;
