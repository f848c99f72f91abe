//! `epguard why`: the verdict about an IP, now or earlier, and the evidence step by step.
//!
//! ```text
//! Chronicle, Translators (status socket) -> explain (pure) -> Explanation -> text
//! ```

use crate::shared::args::RunArgs;
use crate::shared::output::{Output, show};
use crate::shared::screen::Screen;
use crate::shared::status::{self, Request};
use anyhow::{Context as _, Result};
use clap::Args;
use epguard_client::answers::why::{Explanation, WhyQuestion, causes_of_passing, explain};

/// Options of `epguard why`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  epguard why 10.244.1.10                          every Service that lists the IP, and the IP itself
  epguard why 10.244.1.10:8080 --service shop/web  one endpoint
  epguard why [fd00::a]:8080 --at 5m               as it was five minutes ago
  epguard why 10.244.1.10 --at 2026-11-21T10:47:01Z -o json

The agent keeps the last 64 changes of an IP, in 8 MiB for all of them, since its start.")]
pub struct WhyArgs {
    /// What is asked.
    #[command(flatten)]
    pub question: WhyQuestion,
    /// Form of the output
    #[arg(short, long, default_value = "table")]
    pub output: Output,
    /// The agent's status socket.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Asks the agent and prints. Errors: no agent answers, or an older one that keeps no history.
pub fn run(args: &WhyArgs) -> Result<()> {
    let status = status::ask(
        &args.run.run_dir,
        &Request::History(args.question.subject.ip),
    )?;
    let chronicle = status.history.context(
        "the running agent keeps no history: use the epguard binary of this version for the agent, too",
    )?;
    let mut explanation = explain(&chronicle, &args.question);
    explanation.passing = causes_of_passing(&explanation, &status.translators);
    let text = |explanation: &Explanation| explanation.to_text(Screen::of_output(false));
    show(&args.output.text(&explanation, text)?)
}
