//! `epguard detach`: removes all hooks and maps from the node.

use crate::kernel::datapath;
use crate::shared::args::PinArgs;
use anyhow::Result;
use clap::Args;

/// Options of `epguard detach`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubectl delete -k deploy/overlays/enforce, then on each node: epguard detach")]
pub struct DetachArgs {
    /// Where the datapath is pinned.
    #[command(flatten)]
    pub pins: PinArgs,
}

/// Removes everything and prints what there was. Errors: without privileges, or the kernel refuses.
pub fn run(args: &DetachArgs) -> Result<()> {
    let removed = datapath::detach(&args.pins.pin_dir)?;
    for what in &removed {
        println!("removed {what}");
    }
    if removed.is_empty() {
        println!("nothing to remove");
    }
    Ok(())
}
