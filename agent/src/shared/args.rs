//! Arguments that several commands and the daemon share.

use clap::Args;
use std::path::PathBuf;

pub use epguard_client::shared::args::*;

/// Where the datapath is pinned.
#[derive(Debug, Args)]
pub struct PinArgs {
    /// Directory in bpffs with the datapath's maps and links
    #[arg(long, value_name = "PATH", default_value = "/sys/fs/bpf/epguard")]
    pub pin_dir: PathBuf,
}

/// The agent's status socket.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Directory with the agent's status socket
    #[arg(long, value_name = "PATH", default_value = "/run/epguard")]
    pub run_dir: PathBuf,
}
