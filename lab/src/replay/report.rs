//! Prints the results of replays for human readers.

use super::{
    judge::Verdict,
    story::{Finding, Story},
};
use comfy_table::{CellAlignment, Table, presets::NOTHING};
use std::fmt::Write;

const COLUMNS: [&str; 7] = ["from ms", "to ms", "Service", "endpoint", "meant", "hit", "reason"];

/// All stories as text, with colours if the reader is a terminal.
pub fn text(stories: &[Story], colours: bool) -> String {
    let mut out = String::new();
    for story in stories {
        if !story.findings.is_empty() {
            let _ = writeln!(out, "{}", paint(colours, "1", &story.name));
            table(&mut out, story, colours);
        }
    }
    let width = stories.iter().map(|story| story.name.len()).max().unwrap_or(0);
    for story in stories {
        let _ = writeln!(out, "{}", summary(story, width, colours));
    }
    let _ = writeln!(out, "{}", total(stories, colours));
    out
}

fn table(out: &mut String, story: &Story, colours: bool) {
    let rows: Vec<_> = story.findings.iter().map(|finding| row(story, finding)).collect();
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(COLUMNS);
    table.add_rows(rows.iter().map(|(cells, _)| cells));
    for (number, column) in table.column_iter_mut().enumerate() {
        column.set_padding((2, 0));
        if number < 2 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut lines = table.lines();
    let header = format!("{}  verdict", lines.next().unwrap_or_default());
    let _ = writeln!(out, "{}", paint(colours, "2", &header));
    for ((line, (_, verdict)), finding) in lines.zip(&rows).zip(&story.findings) {
        let verdict = paint(colours, colour(finding.verdict), verdict);
        let _ = writeln!(out, "{line}  {verdict}");
    }
    out.push('\n');
}

/// The cells of a finding, and its verdict.
fn row(story: &Story, finding: &Finding) -> ([String; 7], String) {
    let denial = &finding.denial;
    let why = finding.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    let hit = match (finding.hit.is_empty(), story.has_truth) {
        (false, _) => finding.hit.join(", "),
        (true, true) => "nobody".into(),
        (true, false) => "?".into(),
    };
    let cells = [
        millis(finding.from),
        millis(finding.to),
        denial.key.service.clone(),
        denial.key.endpoint(),
        pod(story, &denial.meant),
        hit,
        denial.shape.to_string(),
    ];
    (cells, format!("{}{why}", finding.verdict))
}

/// `namespace/name (first octets of the UID)`: a later pod may have the same name with another UID.
fn pod(story: &Story, uid: &str) -> String {
    let short: String = uid.chars().take(4).collect();
    match story.pods.get(uid) {
        Some(name) => format!("{name} ({short})"),
        None => format!("? ({short})"),
    }
}

fn summary(story: &Story, width: usize, colours: bool) -> String {
    let verdict =
        if story.failed() { paint(colours, "1;31", "FAILED") } else { paint(colours, "32", "ok    ") };
    let truth = if story.has_truth { "" } else { ", nothing from the node's side: only proofs checked" };
    format!(
        "{verdict} {:<width$} {:>6.1} s, {:>4} events, {:>4} instants: {}{truth}",
        story.name,
        story.seconds,
        story.events,
        story.instants,
        counts(std::slice::from_ref(story)),
    )
}

fn total(stories: &[Story], colours: bool) -> String {
    let failed = stories.iter().filter(|story| story.failed()).count();
    let (code, verdict) = if failed == 0 { ("1;32", "ok") } else { ("1;31", "FAILED") };
    let stories_are = format!("{} stories, {failed} failed: {}", stories.len(), counts(stories));
    format!("{} {stories_are}", paint(colours, code, verdict))
}

fn counts(stories: &[Story]) -> String {
    let count = |verdict| stories.iter().map(|story| story.count(verdict)).sum::<usize>();
    let alive = match count(Verdict::StillAlive) {
        0 => String::new(),
        alive => format!(" (and {alive} whose Retired pod still ran)"),
    };
    format!(
        "{} denied rightly{alive}, {} wrongly, {} missing, {} unproven",
        count(Verdict::Ok),
        count(Verdict::Wrong),
        count(Verdict::Missing),
        count(Verdict::Unproven),
    )
}

fn millis(time: std::time::Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1000.0)
}

const fn colour(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "32",
        Verdict::StillAlive => "33",
        Verdict::Wrong | Verdict::Missing | Verdict::Unproven => "1;31",
    }
}

fn paint(colours: bool, code: &str, text: &str) -> String {
    if colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{agent::Agent, recording::Recording, story};
    use std::path::Path;

    fn story() -> Story {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/t-drain");
        let recording = Recording::read(&dir).unwrap();
        story::replay(&recording, &mut Agent::new(&recording)).unwrap()
    }

    #[test]
    fn a_story_reads_as_a_table_and_a_line() {
        let text = text(&[story()], false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "t-drain");
        assert_eq!(
            lines[2],
            "   3979.8  5920.0  rt/web   10.244.1.2:8080  rt/web-578bbb9668-wzsrs (cd70)  nobody  dead-backend  ok"
        );
        assert!(lines[4].starts_with("ok     t-drain    5.9 s,"), "{text}");
        assert!(lines[5].starts_with("ok 1 stories, 0 failed: 1 denied rightly, 0 wrongly"), "{text}");
    }

    #[test]
    fn only_a_terminal_gets_colours() {
        assert!(!text(&[story()], false).contains('\x1b'));
        assert!(text(&[story()], true).contains("\x1b[32mok"));
    }
}
