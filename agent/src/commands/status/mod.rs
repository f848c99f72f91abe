//! `epguard status`: the problems of the agent on this node, then what it does.
//!
//! ```text
//! Status (status socket) -> problems (pure) -> text
//! ```

mod problems;
mod text;

pub(crate) use problems::gap;
pub use problems::problems;
pub use text::text;
pub(crate) use text::{BAD, GOOD, bullet, lease};

use crate::shared::args::RunArgs;
use crate::shared::output::{Output, exit};
use crate::shared::status::{self, Request, Status};
use anyhow::Result;
use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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

/// The output of `-o json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "epguard status -o json")]
pub struct Condition {
    /// What keeps epguard from its work, the worst first.
    pub problems: Vec<Problem>,
    /// The agent's state.
    pub status: Status,
}

/// Something that keeps epguard from its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The problem, with the name of the thing and the cause.
    pub what: String,
    /// The remedy.
    pub remedy: String,
}

impl Problem {
    /// A problem and its remedy.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (what, remedy) = (what.into(), remedy.into());
        Self { what, remedy }
    }
}

/// Asks the agent, prints, and returns the exit code.
#[must_use]
pub fn run(args: &StatusArgs) -> ExitCode {
    exit(show(args), UNKNOWN)
}

fn show(args: &StatusArgs) -> Result<u8> {
    let status = status::ask(&args.run.run_dir, &Request::Figures)?;
    let problems = problems(&status);
    let code = if problems.is_empty() { 0 } else { DEGRADED };
    let condition = Condition { problems, status };
    let table = |condition: &Condition| text(&condition.status, &condition.problems);
    anstream::println!("{}", args.output.text(&condition, table)?);
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemars::generate::SchemaSettings;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_schema_of_the_document_stands_in_docs() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let form = SchemaSettings::default().for_serialize();
        let schema = form.into_generator().into_root_schema_for::<Condition>();
        let schema = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let page = repository.join("docs/status.schema.json");
        if fs::read_to_string(page).unwrap_or_default() != schema {
            let generated = repository.join("target/status.schema.json");
            fs::write(&generated, schema).unwrap();
            panic!("the status has another form: cp target/status.schema.json docs/");
        }
    }
}
