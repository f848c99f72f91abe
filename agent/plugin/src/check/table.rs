//! The rows as text and as a document.

use super::compare::Row;
use super::plan::Story;
use crate::answers::{group_by_value, name_nodes};
use epguard_client::answers::status::Problem;
use epguard_client::shared::output::{count, table};
use epguard_client::shared::screen::{BAD, GOOD};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What a check has found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CheckReport {
    /// Whether each row is as it has to be.
    pub ok: bool,
    /// The nodes that were checked.
    pub nodes: Vec<String>,
    /// All rows: by node, caller, family, protocol and story.
    pub rows: Vec<Row>,
}

impl CheckReport {
    /// Of these rows.
    pub fn new(nodes: Vec<String>, rows: Vec<Row>) -> Self {
        let ok = rows.iter().all(|row| row.ok);
        Self { ok, nodes, rows }
    }

    /// A headline, a line for each node, caller, family and protocol, and each problem with its
    /// rows and its remedy.
    pub fn to_text(&self) -> String {
        let mut parts = vec![self.headline(), self.table()];
        let problems = self.problem_lines();
        if !problems.is_empty() {
            parts.push(problems.join("\n"));
        }
        parts.extend(self.notes());
        parts.join("\n\n")
    }

    fn headline(&self) -> String {
        let nodes = count(self.nodes.len(), "node");
        let failed = self.rows.iter().filter(|row| !row.ok).count();
        if failed == 0 {
            return format!("{nodes}: {GOOD}each call was seen as it has to be{GOOD:#}");
        }
        let rows = self.rows.len();
        format!("{nodes}: {BAD}{failed} of {rows} checks failed{BAD:#}")
    }

    fn table(&self) -> String {
        let mut lines: BTreeMap<_, BTreeMap<Story, &Row>> = BTreeMap::new();
        for row in &self.rows {
            let cell = &row.cell;
            let line = (&cell.node, cell.caller, cell.family, cell.protocol);
            lines.entry(line).or_default().insert(cell.story, row);
        }
        let header = [
            "NODE",
            "CALLER",
            "FAMILY",
            "PROTOCOL",
            "FINISHED",
            "REUSED",
            "LIVE SERVICE",
            "LIVE POD",
            "VERDICT",
        ];
        let mut rows = Vec::new();
        for ((node, caller, family, protocol), stories) in lines {
            let mut cells = vec![
                node.clone(),
                caller.to_string(),
                family.to_string(),
                protocol.to_string(),
            ];
            for story in Story::ALL {
                cells.push(
                    stories
                        .get(&story)
                        .map_or_else(String::new, |row| seen_of_sent(row)),
                );
            }
            let is_ok = stories.values().all(|row| row.ok);
            let verdict = if is_ok { "ok" } else { "FAILED" };
            cells.push(verdict.to_owned());
            rows.push(cells);
        }
        table(&header, rows)
    }

    /// Each problem once, with the rows that have it.
    fn problem_lines(&self) -> Vec<String> {
        let mut found = Vec::new();
        for row in &self.rows {
            if let Some(problem) = &row.problem {
                found.push(((&row.cell.node, problem), row));
            }
        }
        let mut lines = Vec::new();
        for ((node, problem), rows) in group_by_value(found) {
            let place = self.which(node, &rows);
            let Problem { what, remedy } = problem;
            lines.push(format!(
                "  {BAD}!{BAD:#} {node}, {place}: {what}\n      {remedy}"
            ));
        }
        lines
    }
}

impl CheckReport {
    /// Why unseen calls are no problem, once, with the nodes.
    fn notes(&self) -> Option<String> {
        let noted = self.rows.iter().filter(|row| row.note.is_some());
        let nodes: BTreeSet<&str> = noted.clone().map(|row| row.cell.node.as_str()).collect();
        let note = noted.clone().find_map(|row| row.note)?;
        let nodes: Vec<&str> = nodes.into_iter().collect();
        Some(format!("  {}: {note}", name_nodes(&nodes)))
    }
}

/// `10 of 10`: calls that the agent saw, of those sent.
fn seen_of_sent(row: &Row) -> String {
    format!("{} of {}", row.seen, row.sent)
}

impl CheckReport {
    /// Which calls of a node have a problem: each story once, with where it has the problem unless
    /// that is everywhere on the node.
    fn which(&self, node: &str, rows: &[&Row]) -> String {
        let mut texts = Vec::new();
        for story in Story::ALL {
            let of_story = rows.iter().filter(|row| row.cell.story == story);
            let places: Vec<String> = of_story
                .map(|row| {
                    let cell = &row.cell;
                    format!("{} {} {}", cell.caller, cell.family, cell.protocol)
                })
                .collect();
            let cells = self.rows.iter().map(|row| &row.cell);
            let all = cells.filter(|cell| cell.node == node && cell.story == story);
            if places.is_empty() {
                continue;
            }
            if places.len() == all.count() {
                texts.push(format!("calls to {story}"));
            } else {
                texts.push(format!("calls to {story} ({})", places.join(", ")));
            }
        }
        texts.join("; ")
    }
}
