//! `epguard completion`: the files that packages install beside the binary.

use clap::{Args, Command};
use clap_complete::Shell;

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

/// Prints the completions of a shell.
pub fn run(args: &CompletionArgs, mut command: Command) {
    let mut completions = Vec::new();
    clap_complete::generate(args.shell, &mut command, "epguard", &mut completions);
    print!("{}", String::from_utf8_lossy(&completions));
}
