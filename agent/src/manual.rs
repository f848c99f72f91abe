//! `epguard completion` and `epguard man`: what packages install beside the binary.

use crate::cli::Cli;
use anyhow::{Context as _, Result};
use clap::{Args, CommandFactory as _};
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
pub fn complete(args: &CompletionArgs) {
    let mut completions = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "epguard", &mut completions);
    print!("{}", String::from_utf8_lossy(&completions));
}

/// Writes the manual pages. Errors: the directory cannot be written.
pub fn pages(args: &ManArgs) -> Result<()> {
    let directory = args.directory.display();
    fs::create_dir_all(&args.directory).with_context(|| format!("cannot make {directory}"))?;
    clap_mangen::generate_to(Cli::command(), &args.directory)
        .with_context(|| format!("cannot write pages to {directory}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subcommand_has_a_page() {
        let directory = std::env::temp_dir().join(format!("epguard-man-{}", std::process::id()));
        let args = ManArgs { directory };
        pages(&args).unwrap();
        let page = fs::read_to_string(args.directory.join("epguard-status.1"));
        fs::remove_dir_all(&args.directory).unwrap();
        assert!(page.unwrap().contains("keeps it from doing it"));
    }

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }
}
