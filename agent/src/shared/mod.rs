//! What the daemon and the commands share: arguments, clocks, the API's client, the run directory
//! and the document at the status socket.

pub mod args;
pub mod calls;
pub mod choice;
pub mod client;
pub mod clock;
pub mod drops;
pub mod output;
pub mod pace;
pub mod plain;
pub mod run_dir;
pub mod status;
