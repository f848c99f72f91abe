//! What the daemon and the commands share: arguments, clocks, the run directory and the document at the status socket.

pub mod args;
pub mod choice;
pub mod clock;
pub mod drops;
pub mod output;
pub mod plain;
pub mod run_dir;
pub mod status;
