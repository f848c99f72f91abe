//! `epguard dump`: the maps with names, as far as the agent knows them.

mod action;
mod document;
mod table;

pub use document::{collect, denials, keyed, services};

use crate::shared::args::{PinArgs, RunArgs};
use crate::shared::output::Output;
use crate::shared::status;
use anyhow::Result;
use clap::Args;

/// Options of `epguard dump`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  epguard dump
  epguard dump -o json | jq .denied")]
pub struct DumpArgs {
    /// Form of the output
    #[arg(short, long, default_value = "table")]
    pub output: Output,
    /// Where the datapath is pinned.
    #[command(flatten)]
    pub pins: PinArgs,
    /// The agent's status socket.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Reads the pinned maps and prints them. Errors: no datapath is pinned there.
pub fn run(args: &DumpArgs) -> Result<()> {
    let names = status::current(&args.run.run_dir).unwrap_or_default();
    let dump = collect(&args.pins.pin_dir, &names)?;
    println!("{}", args.output.text(&dump, table::tables)?);
    Ok(())
}
