//! `epguard mode`: shows or switches the mode of the datapath, at once.

use crate::kernel::maps;
use crate::shared::args::{PinArgs, one_of};
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
    /// The new mode [default: show the mode]
    #[arg(value_parser = one_of(Mode::ALL, Mode::as_str, Mode::help))]
    pub mode: Option<Mode>,
    /// Only this reason [default: the node's mode]
    #[arg(long, value_parser = one_of(Reason::TO_DENY, Reason::as_str, Reason::help))]
    pub reason: Option<Reason>,
    /// Where the datapath is pinned.
    #[command(flatten)]
    pub pins: PinArgs,
}

/// Switches the mode, and prints those in force then. Errors: no datapath is pinned there.
pub fn run(args: &ModeArgs) -> Result<()> {
    let pin_dir = &args.pins.pin_dir;
    if let Some(mode) = args.mode {
        maps::set_mode(pin_dir, mode, args.reason)?;
    }
    println!("{}", maps::show_mode(pin_dir, args.reason)?);
    Ok(())
}
