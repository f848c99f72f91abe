//! `epguard mode`: shows or switches the mode of the datapath, at once.

use crate::kernel::maps;
use crate::shared::args::{PinArgs, mode, reason};
use anyhow::Result;
use clap::Args;
use epguard_common::{Mode, Reason};

/// Options of `epguard mode`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  epguard mode
  epguard mode observe
  epguard mode --reason terminated observe")]
pub struct ModeArgs {
    /// off: look at nothing; observe: count what would be denied; enforce: deny [default: show the mode]
    #[arg(value_parser = mode())]
    pub mode: Option<Mode>,
    /// Only this reason: dead-backend, reused, retired-backend or terminated [default: the node's mode]
    #[arg(long, value_parser = reason)]
    pub reason: Option<Reason>,
    /// Where the datapath is pinned.
    #[command(flatten)]
    pub pins: PinArgs,
}

/// Switches the mode, or prints it. Errors: no datapath is pinned there.
pub fn run(args: &ModeArgs) -> Result<()> {
    let pin_dir = &args.pins.pin_dir;
    match args.mode {
        Some(mode) => maps::set_mode(pin_dir, mode, args.reason),
        None => maps::show_mode(pin_dir, args.reason).map(|text| println!("{text}")),
    }
}
