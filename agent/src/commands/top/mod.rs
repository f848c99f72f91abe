//! `epguard top`: shows the denials of this moment, on a screen that follows them.
//!
//! ```text
//! status socket, COUNTERS -> Sample -> Model (rates since the one before) -> view -> screen, or plain text
//! keys -> Controls -------------------------^
//! ```

mod columns;
mod controls;
mod document;
mod model;
mod palette;
mod rates;
mod rows;
mod sample;
mod screen;
mod view;

pub use document::{Answers, Counted, Document};
pub use sample::{Agent, Sample};

use crate::shared::args::{PinArgs, RunArgs, seconds};
use crate::shared::output::Output;
use anyhow::{Context as _, Result};
use clap::Args;
use model::Model;
use sample::Source;
use std::io::{IsTerminal as _, Write as _, stdin, stdout};
use std::time::Duration;
use tokio::sync::mpsc::Receiver;

/// Options of `epguard top`.
#[derive(Debug, Args)]
#[command(after_help = "\
Keys: q quit, r by rate, t by packets, l by time last seen, s Services or flows, p pause, arrows, PgUp, PgDn, Home and End
scroll, ? keys.

PACKETS/S is the kernel's count of every packet. Flows are counted by what the kernel reports: at most 100 packets a
second for each IP.

Examples:
  epguard top
  epguard top --batch -n 10 --interval 5    ten snapshots, five seconds apart")]
pub struct TopArgs {
    /// Seconds between refreshes, 1 to 60
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds(1..=60))]
    pub interval: Duration,
    /// Print plain text instead of a screen; this is the default without a terminal
    #[arg(short, long)]
    pub batch: bool,
    /// Snapshots to print [default: 1]; implies --batch
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Form of the output; json and yaml are a document per snapshot, and imply --batch
    #[arg(short, long, default_value = "table")]
    pub output: Output,
    /// Where the datapath is pinned.
    #[command(flatten)]
    pub pins: PinArgs,
    /// The agent's status socket.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Shows the screen until a key or a signal ends it, or prints text. Errors: no agent answers, no datapath is pinned,
/// or the output fails.
pub async fn run(args: TopArgs) -> Result<()> {
    let source = Source {
        pin_dir: args.pins.pin_dir,
        run_dir: args.run.run_dir,
    };
    if args.output != Output::Table {
        return documents(source, args.interval, args.count.unwrap_or(1), args.output).await;
    }
    let first = source.sample();
    let samples = source.every(args.interval);
    present(first, samples, args.batch, args.count).await.map(drop)
}

/// Shows samples on a screen, or so many as text. Returns whether it was a screen. Errors as of [`run`].
pub async fn present(
    first: Sample,
    samples: Receiver<Sample>,
    batch: bool,
    count: Option<u64>,
) -> Result<bool> {
    let model = Model::new(first)?;
    let live = !batch && count.is_none() && stdin().is_terminal() && stdout().is_terminal();
    if live {
        screen::show(model, samples).await?;
    } else {
        print(model, samples, count.unwrap_or(1)).await?;
    }
    Ok(live)
}

/// Prints the first sample at once, and then one after each interval.
async fn documents(source: Source, interval: Duration, count: u64, output: Output) -> Result<()> {
    let mut sample = source.sample();
    let mut samples = source.every(interval);
    for number in 1..=count {
        let document = Document::from(sample);
        let text = match output {
            Output::Json => serde_json::to_string(&document).context("cannot write JSON")?,
            _ => format!("---\n{}", output.text(&document, |_| String::new())?),
        };
        writeln!(stdout(), "{text}").context("cannot print")?;
        if number == count {
            break;
        }
        sample = samples.recv().await.context("nothing is read any more")?;
    }
    Ok(())
}

async fn print(mut model: Model, mut samples: Receiver<Sample>, count: u64) -> Result<()> {
    for number in 0..count {
        model.refresh(samples.recv().await.context("nothing is read any more")?);
        let gap = if number > 0 { "\n" } else { "" };
        write!(stdout(), "{gap}{}", view::text(&model)).context("cannot print")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: TopArgs,
    }

    #[test]
    fn a_refresh_takes_a_second_to_a_minute() {
        let interval = |arguments: &[&str]| {
            let line = Line::try_parse_from([&["top"], arguments].concat());
            line.map(|line| line.args.interval.as_secs())
        };
        assert_eq!(interval(&[]).unwrap(), 1);
        assert_eq!(interval(&["--interval", "60"]).unwrap(), 60);
        for outside in ["0", "61"] {
            let error = interval(&["--interval", outside]).unwrap_err().to_string();
            assert!(error.contains("1..=60"), "{error}");
        }
    }
}
