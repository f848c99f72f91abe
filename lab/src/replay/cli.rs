//! `epguard-lab replay DIR...`

use super::agent::ReplayedAgent;
use super::judge::{self, Finding, Story, Verdict};
use super::recording::Recording;
use crate::files;
use anyhow::{Result, ensure};
use comfy_table::{CellAlignment, Table, presets::NOTHING};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Replay recordings of a cluster to the agent's state machine and judge every denial at every
/// instant.
///
/// Fails if anything was denied whose rightful receiver was alive, if anything provable was not
/// denied, or if anything was denied without proof.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Recordings, or folders of them; the format is in lab/traces/README.md.
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
}

/// Replays each recording. An error if one failed.
pub fn run(args: &Args) -> Result<()> {
    let mut stories = Vec::new();
    for dir in recordings(&args.dirs)? {
        let story = judge::replay(&Recording::read(&dir)?, ReplayedAgent::denials)?;
        print!("{}", findings(&story));
        stories.push(story);
    }
    for story in &stories {
        println!("{}", summary(story));
    }
    conclude(&stories)
}

/// Each folder that has a `pods.jsonl`, given itself or by its parent.
fn recordings(dirs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    files::named(
        dirs,
        "recording (no pods.jsonl)",
        is_recording,
        is_recording,
    )
}

fn is_recording(dir: &Path) -> bool {
    dir.join("pods.jsonl").exists()
}

/// Prints how many stories passed; an error names those that did not.
fn conclude(stories: &[Story]) -> Result<()> {
    let failed: Vec<&str> = stories
        .iter()
        .filter(|story| story.failed())
        .map(|story| story.name.as_str())
        .collect();
    println!(
        "{} passed, {} failed",
        stories.len() - failed.len(),
        failed.len()
    );
    let names = failed.join(", ");
    ensure!(
        failed.is_empty(),
        "{} of {} recordings failed: {names}",
        failed.len(),
        stories.len()
    );
    Ok(())
}

/// The findings of a story as a table under its name; empty if it has none.
pub(super) fn findings(story: &Story) -> String {
    if story.findings.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    let columns = [
        "from ms", "to ms", "Service", "endpoint", "meant", "hit", "reason", "verdict",
    ];
    table.load_preset(NOTHING).set_header(columns);
    table.add_rows(story.findings.iter().map(|finding| row(story, finding)));
    for (number, column) in table.column_iter_mut().enumerate() {
        column.set_padding((2, 0));
        if number < 2 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n{table}\n\n", story.name)
}

fn milliseconds(time: std::time::Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1000.0)
}

fn row(story: &Story, finding: &Finding) -> [String; 8] {
    let Finding {
        denial,
        verdict,
        from,
        to,
        hit,
        why,
    } = finding;
    // A later pod may have the same name with another UID.
    let meant = story.pods.get(&denial.meant).map_or("?", String::as_str);
    let hit = match (hit.is_empty(), story.has_truth) {
        (false, _) => hit
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", "),
        (true, true) => "nobody".into(),
        (true, false) => "?".into(),
    };
    [
        milliseconds(*from),
        milliseconds(*to),
        denial.key.service.clone(),
        format!(
            "{}/{}",
            SocketAddr::new(denial.key.ip, denial.key.port),
            denial.key.protocol.as_str()
        ),
        format!("{meant} ({:.4})", denial.meant),
        hit,
        denial.shape.to_string(),
        why.as_ref()
            .map_or_else(|| verdict.to_string(), |why| format!("{verdict}: {why}")),
    ]
}

fn summary(story: &Story) -> String {
    let verdict = if story.failed() { "FAILED" } else { "ok    " };
    let truth = if story.has_truth {
        ""
    } else {
        ", nothing from the node's side: only proofs checked"
    };
    let [ok, alive, wrong, missing, unproven] = [
        Verdict::Ok,
        Verdict::StillAlive,
        Verdict::Wrong,
        Verdict::Missing,
        Verdict::Unproven,
    ]
    .map(|verdict| story.count(verdict));
    format!(
        "{verdict} {:<25} {:>6.1} s, {:>4} events, {:>4} instants: {ok} denied rightly, {alive} whose Retired pod still ran, \
         {wrong} wrongly, {missing} missing, {unproven} unproven{truth}",
        story.name, story.seconds, story.events, story.instants
    )
}

#[cfg(test)]
mod tests {
    use super::super::judge::tests::recording;
    use super::*;

    #[test]
    fn a_missing_denial_fails_the_run_and_names_the_recording() {
        let story = |name| judge::replay(&recording(name), |_| Vec::new()).unwrap();
        let error = conclude(&[story("t-drain")]).unwrap_err();
        assert_eq!(error.to_string(), "1 of 1 recordings failed: t-drain");
        conclude(&[story("k-static-pod")]).unwrap();
    }

    #[test]
    fn a_folder_without_recordings_is_an_error() {
        for (folder, expected) in [
            ("src", "no pods.jsonl"),
            ("nowhere", "nowhere: no such recording"),
        ] {
            let error =
                recordings(&[Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)]).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn a_story_reads_as_a_table_and_a_line() {
        let story = judge::replay(&recording("t-drain"), ReplayedAgent::denials).unwrap();
        let table = findings(&story);
        let lines: Vec<&str> = table.lines().map(str::trim_end).collect();
        assert_eq!(lines[0], "t-drain");
        assert_eq!(
            lines[2],
            "   3979.8  5920.0  rt/web   10.244.1.2:8080/TCP  rt/web-578bbb9668-wzsrs (cd70)  nobody  dead-backend  ok"
        );
        assert!(
            summary(&story).starts_with("ok     t-drain "),
            "{}",
            summary(&story)
        );
        assert!(
            summary(&story)
                .contains(": 1 denied rightly, 0 whose Retired pod still ran, 0 wrongly")
        );
    }
}
