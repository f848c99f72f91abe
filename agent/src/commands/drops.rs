//! `epguard drops`: denied flows by Service, pod meant and pod hit; or as they come.
//!
//! ```text
//! DENIAL_COUNTS -> Tally (in the agent; clients from events) -> status socket
//!   -> DropsFilter -> table, or lines
//! ```

use crate::shared::args::RunArgs;
use crate::shared::drops::Dropped;
use crate::shared::output::{Output, escaped, is_read, print, show};
use crate::shared::screen::Screen;
use crate::shared::status::{self, Request};
use anyhow::{Context as _, Result};
use clap::Args;
use epguard_client::answers::drops::{DropsFilter, DropsRow, Follower, drops_text, line_of};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time between two requests to the agent.
const PACE: Duration = Duration::from_secs(1);

/// Options of `epguard drops`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  epguard drops                           what was denied, or would have been, since the agent's start
  epguard drops -f -n shop                new denials, for the Services of one namespace
  epguard drops --reason reused -o json")]
pub struct DropsArgs {
    /// Print new denials every second until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// Which denials.
    #[command(flatten)]
    pub filter: DropsFilter,
    /// Form of the output; with --follow, json and yaml are a list in a line each second
    #[arg(short, long, default_value = "table")]
    pub output: Output,
    /// The agent's status socket.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Reads the agent's counts of denied flows, the latest first. Blocks; errors name the socket and
/// the remedy.
pub fn ask_agent(run_dir: &Path) -> Result<Vec<Dropped>> {
    status::ask(run_dir, &Request::Drops)?.drops.context(
        "the running agent does not count drops: use the epguard binary of this version for the agent, too",
    )
}

/// Asks the agent and prints. Errors: no agent answers, or it stops answering.
pub fn run(args: &DropsArgs) -> Result<()> {
    let filter = &args.filter;
    let first = filter.select(ask_agent(&args.run.run_dir)?);
    if !args.follow {
        let table = |all: &Vec<Dropped>| {
            let rows: Vec<DropsRow> = all.iter().map(DropsRow::of_one_node).collect();
            drops_text(
                &rows,
                filter.is_narrowed(),
                Screen::of_output(false),
                "epguard",
            )
        };
        return show(&args.output.text(&first, table)?);
    }
    let mut follower = Follower::since(Instant::now());
    let mut now = first;
    while is_read() {
        let new = follower.take_new(now);
        match args.output {
            Output::Table => {
                for dropped in &new {
                    print(&line_of(dropped))?;
                }
            }
            Output::Json | Output::Yaml => println!("{}", escaped(serde_json::to_string(&new)?)),
        }
        sleep(PACE);
        now = filter.select(ask_agent(&args.run.run_dir)?);
    }
    Ok(())
}
