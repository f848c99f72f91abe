//! `epguard status`: the problems of the agent on this node, then what it does.
//!
//! ```text
//! Status (status socket) -> problems (pure) -> text
//! ```

use crate::shared::args::RunArgs;
use crate::shared::output::{Output, exit, show};
use crate::shared::screen::Screen;
use crate::shared::status::{self, Request};
use clap::Args;
use epguard_client::answers::status::{Condition, problems};
use std::process::ExitCode;

/// Exit codes beside 0.
const DEGRADED: u8 = 1;
const UNKNOWN: u8 = 2;

/// Options of `epguard status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code: 0 all is well, 1 degraded, 2 no agent answers.

Examples:
  epguard status                 problems first, each with its remedy
  epguard status -o json | jq .problems")]
pub struct StatusArgs {
    /// Form of the output
    #[arg(short, long, default_value = "table")]
    pub output: Output,
    /// The agent's status socket.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Asks the agent, prints, and returns the exit code.
pub fn run(args: &StatusArgs) -> ExitCode {
    let asked = status::ask(&args.run.run_dir, &Request::Figures);
    let shown = asked.and_then(|status| {
        let problems = problems(&status);
        let code = if problems.is_empty() { 0 } else { DEGRADED };
        let condition = Condition { problems, status };
        let text = |condition: &Condition| condition.to_text(Screen::of_output(false));
        show(&args.output.text(&condition, text)?)?;
        Ok(code)
    });
    exit(shown, UNKNOWN)
}
