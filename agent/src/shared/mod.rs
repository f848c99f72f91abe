//! What the daemon and the commands share: clocks, the pace of requests, the run directory and the
//! status socket. What kubectl's plugin needs, too, comes from `epguard-client`.

pub mod args;
pub mod clock;
pub mod pace;
pub mod run_dir;
pub mod status;

pub use epguard_client::shared::{calls, cards, choice, client, drops, output, plain, screen};
