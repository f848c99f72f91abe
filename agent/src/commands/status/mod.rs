//! `epguard status`: the problems of the agent on this node, then what it does.
//!
//! ```text
//! Status (status socket) -> problems (pure) -> text
//! ```

mod carrier;
mod crowded;
mod problem;
mod problems;
mod sockets;
mod text;
mod unproven;

pub use problem::Problem;
pub use problems::problems;
pub use text::text;
pub(crate) use text::{lease, view};

use crate::shared::args::RunArgs;
use crate::shared::output::Output;
use crate::shared::status::{self, Request, Status};
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;

/// Exit codes beside 0.
const DEGRADED: u8 = 1;
const UNKNOWN: u8 = 2;

/// Options of `epguard status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code: 0 all is well, 1 degraded, 2 no agent answers.

Examples:
  epguard status                 what is wrong first, with the remedy
  epguard status -o json | jq .problems")]
pub struct StatusArgs {
    /// Form of the output
    #[arg(short, long, default_value = "table")]
    pub output: Output,
    /// Where the agent can be asked.
    #[command(flatten)]
    pub run: RunArgs,
}

/// The output of `-o json`.
#[derive(Debug, Serialize)]
struct Condition {
    problems: Vec<Problem>,
    status: Status,
}

/// Asks the agent, prints, and returns the exit code.
#[must_use]
pub fn run(args: &StatusArgs) -> ExitCode {
    match show(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DEGRADED),
        Err(error) => {
            eprintln!("epguard: {error:#}");
            ExitCode::from(UNKNOWN)
        }
    }
}

/// Prints the status; true if there is no problem.
fn show(args: &StatusArgs) -> Result<bool> {
    let status = status::ask(&args.run.run_dir, &Request::Figures)?;
    let problems = problems(&status);
    let well = problems.is_empty();
    let condition = Condition { problems, status };
    let table = |condition: &Condition| text(&condition.status, &condition.problems);
    anstream::println!("{}", args.output.text(&condition, table)?);
    Ok(well)
}
