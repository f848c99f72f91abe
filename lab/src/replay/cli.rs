//! `epguard-lab replay DIR...`

use super::{agent::Agent, recording::Recording, report, stage, story, story::Story};
use crate::files;
use anyhow::{Context, Result, ensure};
use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
};

/// Replay recordings of a cluster and judge every denial at every instant.
///
/// Fails if anything was denied whose rightful receiver was alive, if anything provable was not denied, or if
/// anything was denied without proof.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Recordings, or folders of them; the format is in lab/traces/README.md.
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Form of the report.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Replay to a whole agent with process, maps and watches of its own (needs root), instead of to its
    /// state machine on a virtual clock.
    #[arg(long)]
    agent: bool,
    /// With --agent: how many times as fast as in the recording.
    #[arg(long, default_value_t = 20.0)]
    speed: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

/// Replays with the agent's state machine, or to a whole agent. An error if a story failed.
pub async fn run(args: &Args) -> Result<()> {
    let replay = async |recording: &Recording| {
        if args.agent {
            whole(recording, args.speed).await
        } else {
            story::replay(recording, &mut Agent::new(recording))
        }
    };
    replay_all(&args.dirs, args.output, replay).await
}

/// Replays each recording and prints the report. An error if a story failed.
async fn replay_all(
    dirs: &[PathBuf],
    output: Output,
    mut replay: impl AsyncFnMut(&Recording) -> Result<Story>,
) -> Result<()> {
    let mut stories = Vec::new();
    for dir in recordings(dirs)? {
        stories.push(replay(&Recording::read(&dir)?).await?);
    }
    report_on(&stories, output)
}

/// Performs to a whole agent.
async fn whole(recording: &Recording, speed: f64) -> Result<Story> {
    let (story, figures) = stage::perform(recording, speed).await?;
    let latency = figures.latency;
    eprintln!(
        "{}: {} API events, from receipt to map write: median {} us, 99th percentile {} us, longest {} us",
        story.name, latency.count, latency.p50_us, latency.p99_us, latency.max_us
    );
    Ok(story)
}

fn report_on(stories: &[Story], output: Output) -> Result<()> {
    print(stories, output).context("writing the report")?;
    let failed: Vec<&str> =
        stories.iter().filter(|story| story.failed()).map(|story| story.name.as_str()).collect();
    ensure!(
        failed.is_empty(),
        "{} of {} recordings failed: {}",
        failed.len(),
        stories.len(),
        failed.join(", ")
    );
    Ok(())
}

fn print(stories: &[Story], output: Output) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut stdout, stories)?;
            writeln!(stdout)?;
        }
        Output::Table => {
            let colours = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none();
            stdout.write_all(report::text(stories, colours).as_bytes())?;
            let failed = stories.iter().filter(|story| story.failed()).count();
            writeln!(stdout, "{} passed, {failed} failed", stories.len() - failed)?;
        }
    }
    Ok(())
}

/// Each folder that has a `pods.jsonl`, given itself or by its parent.
fn recordings(dirs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let is_one = |dir: &Path| dir.join("pods.jsonl").exists();
    files::named(dirs, "recording (no pods.jsonl)", is_one, is_one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{stream::ApiEvent, subject::Denial, subject::Subject, testing::Folder};
    use std::time::Duration;

    /// Denies nothing.
    struct Silent;

    impl Subject for Silent {
        fn feed(&mut self, _: Duration, _: &ApiEvent) -> Result<()> {
            Ok(())
        }

        fn denials(&self) -> Vec<Denial> {
            Vec::new()
        }
    }

    async fn run_silent(dir: &Path) -> Result<()> {
        let replay = async |recording: &Recording| story::replay(recording, &mut Silent);
        replay_all(&[dir.into()], Output::Json, replay).await
    }

    #[tokio::test]
    async fn a_missing_denial_fails_the_run_and_names_the_recording() {
        let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
        let error = run_silent(&traces.join("t-drain")).await.unwrap_err();
        assert_eq!(error.to_string(), "1 of 1 recordings failed: t-drain");
        run_silent(&traces.join("k-static-pod")).await.unwrap();
    }

    #[tokio::test]
    async fn a_folder_without_recordings_is_an_error() {
        let folder = Folder::with(&[]);
        assert!(run_silent(folder.path()).await.unwrap_err().to_string().contains("no pods.jsonl"));
        let nowhere = folder.path().join("nowhere");
        assert!(run_silent(&nowhere).await.unwrap_err().to_string().contains("nowhere: no such recording"));
    }
}
