//! What a run needs besides the network: the real agent as a process, an API server for it, a bpffs and `bpftool`.

mod agent;
pub mod bpftool;
pub mod process;
mod serve;
mod workdir;

pub use agent::Agent;
pub use serve::Serving;
pub use workdir::Workdir;
