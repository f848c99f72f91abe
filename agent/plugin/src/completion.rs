//! `kubectl epguard completion`: how kubectl completes this plugin's command lines.
//!
//! kubectl runs the program `kubectl_complete-epguard` with the words so far. It prints a line for
//! each candidate, `VALUE<tab>DESCRIPTION`, and last what the shell may add (`:NUMBER`).

use anyhow::{Context as _, Result};
use clap::{Args, Command};
use clap_complete::engine::complete as candidates;
use epguard_client::shared::output::print;
use std::ffi::OsString;
use std::process::ExitCode;

/// The program that kubectl runs.
const SCRIPT: &str = include_str!("../kubectl_complete-epguard");
/// cobra's `ShellCompDirectiveNoFileComp`: names of files are no candidates.
const NO_FILES: &str = ":4";

/// Below the options.
pub const HELP: &str = "\
Completion by kubectl (kubectl completion --help) finds the script on PATH.

Examples:
  kubectl epguard completion > ~/.local/bin/kubectl_complete-epguard
  chmod +x ~/.local/bin/kubectl_complete-epguard";

/// The words of a command line.
#[derive(Debug, Args)]
pub struct CompleteArgs {
    /// The words so far, the last one incomplete or empty
    #[arg(last = true)]
    words: Vec<OsString>,
}

/// Prints the script. Errors: the output fails.
pub fn print_script() -> Result<ExitCode> {
    print(SCRIPT.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the candidates for the last word. Errors: the output fails.
pub fn complete(args: CompleteArgs, mut command: Command) -> Result<ExitCode> {
    let mut words = vec![OsString::from(command.get_name())];
    words.extend(args.words);
    if words.len() == 1 {
        words.push(OsString::new());
    }
    let last = words.len() - 1;
    let here = std::env::current_dir().ok();
    let found = candidates(&mut command, words, last, here.as_deref());
    let mut lines = Vec::new();
    for candidate in found.context("cannot complete the command line")? {
        let value = candidate.get_value().to_string_lossy();
        let help = candidate.get_help().map(ToString::to_string);
        let first = help.unwrap_or_default();
        let first = first.lines().next().unwrap_or_default();
        lines.push(format!("{value}\t{first}"));
    }
    lines.push(NO_FILES.to_owned());
    print(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}
