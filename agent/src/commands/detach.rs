//! `epguard detach`: removes all hooks and maps from the node, and what an agent that has ended
//! left in its run directory.

use crate::kernel::datapath;
use crate::kernel::maps::no_agent;
use crate::shared::args::{PinArgs, RunArgs};
use crate::shared::run_dir;
use anyhow::Result;
use clap::Args;

/// Options of `epguard detach`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubectl delete -f deploy/epguard.yaml, then on each node: epguard detach")]
pub struct DetachArgs {
    /// Where the datapath is pinned.
    #[command(flatten)]
    pub pins: PinArgs,
    /// What an agent left there is removed, too.
    #[command(flatten)]
    pub run: RunArgs,
    /// Remove everything under an agent that runs, too: it protects nothing until it restarts
    #[arg(long)]
    pub force: bool,
}

/// Removes everything and prints what there was. Errors: an agent runs, without privileges, or the
/// kernel refuses.
pub fn run(args: &DetachArgs) -> Result<()> {
    let _no_agent_starts = if args.force {
        None
    } else {
        no_agent(&args.pins.pin_dir)?
    };
    let mut removed = datapath::detach(&args.pins.pin_dir)?;
    removed.extend(run_dir::remove(&args.run.run_dir));
    for what in &removed {
        println!("removed {what}");
    }
    if removed.is_empty() {
        println!("nothing to remove");
    }
    Ok(())
}
