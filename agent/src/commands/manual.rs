//! `epguard completion` and `epguard man`: the files that packages install beside the binary.

use anyhow::{Context as _, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use std::fs;
use std::path::PathBuf;

/// Options of `epguard completion`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(epguard completion bash)
  epguard completion zsh > \"${fpath[1]}/_epguard\"")]
pub struct CompletionArgs {
    /// For which shell
    pub shell: Shell,
}

/// Options of `epguard man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  epguard man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Where the pages go, one for each subcommand; it is made if there is none
    #[arg(value_name = "DIRECTORY")]
    pub directory: PathBuf,
}

/// Prints the completions of a shell.
pub fn complete(args: &CompletionArgs, mut command: Command) {
    let mut completions = Vec::new();
    clap_complete::generate(args.shell, &mut command, "epguard", &mut completions);
    print!("{}", String::from_utf8_lossy(&completions));
}

/// Writes the manual pages. Errors: the directory cannot be written.
pub fn pages(args: &ManArgs, command: Command) -> Result<()> {
    let directory = args.directory.display();
    fs::create_dir_all(&args.directory).with_context(|| format!("cannot make {directory}"))?;
    clap_mangen::generate_to(command, &args.directory)
        .with_context(|| format!("cannot write pages to {directory}"))
}
