//! The rows as text and as a document.

use super::compare::Row;
use super::nodes::NotChecked;
use super::plan::Story;
use crate::answers::{UNKNOWN, group_by_value, join_parts, name_nodes};
use epguard_client::answers::status::Problem;
use epguard_client::shared::cards::{columned_or_cards, table_or_cards};
use epguard_client::shared::output::{Column, count, in_words};
use epguard_client::shared::screen::{BAD, GOOD, Screen};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The exit code if a row is not as it has to be.
const FAILED: u8 = 1;

/// What a check has found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CheckReport {
    /// Whether each row is as it has to be.
    pub ok: bool,
    /// The nodes that were checked.
    pub nodes: Vec<String>,
    /// Those that should have an agent, and have none.
    #[serde(flatten)]
    pub not_checked: NotChecked,
    /// All rows: by node, caller, family, protocol and story.
    pub rows: Vec<Row>,
}

/// The columns of `-o wide`, which has a line for each row.
const COLUMNS: [Column<Row>; 9] = [
    ("NODE", |row| row.cell.node.clone()),
    ("CALLER", |row| row.cell.caller.to_string()),
    ("FAMILY", |row| row.cell.family.to_string()),
    ("PROTOCOL", |row| row.cell.protocol.to_string()),
    ("CALLED", |row| row.cell.story.column().to_owned()),
    ("SEEN", seen_of_sent),
    ("OUTCOME", outcomes),
    ("ANSWERED", |row| row.answered.to_string()),
    ("VERDICT", |row| verdict(row.ok).to_owned()),
];

impl CheckReport {
    /// Of these rows.
    pub fn new(nodes: Vec<String>, rows: Vec<Row>, not_checked: NotChecked) -> Self {
        let ok = rows.iter().all(|row| row.ok);
        Self {
            ok,
            nodes,
            not_checked,
            rows,
        }
    }

    /// The exit code: of the worst row, unless a chosen node is missing.
    pub fn code(&self) -> u8 {
        if self.not_checked.lacks_chosen() {
            UNKNOWN
        } else if self.ok {
            0
        } else {
            FAILED
        }
    }

    /// A headline, the table, each problem with its rows and its remedy, and what is not checked.
    pub fn to_text(&self, screen: Screen) -> String {
        let table = if screen.full {
            columned_or_cards(screen, &COLUMNS, &self.rows)
        } else {
            self.table(screen)
        };
        join_parts([
            screen.fold(&self.headline()),
            self.painted(&table),
            screen.fold(&self.problem_lines().join("\n")),
            screen.fold(&self.notes().unwrap_or_default()),
            screen.fold(&self.not_checked.lines().join("\n")),
        ])
    }

    fn headline(&self) -> String {
        let nodes = count(self.nodes.len(), "node");
        let wrong = self.rows.iter().filter(|row| !row.ok).count();
        if wrong == 0 {
            return format!("{nodes}: {GOOD}each call was seen as it has to be{GOOD:#}");
        }
        let cells = count(self.rows.len(), "cell");
        let are = if wrong == 1 { "is" } else { "are" };
        let places = self.wrong_places().join("; ");
        format!("{nodes}: {BAD}{wrong} of {cells} {are} wrong: {places}{BAD:#}")
    }

    /// Columns with wrong cells, and their nodes: `FINISHED and REUSED on node-a`.
    fn wrong_places(&self) -> Vec<String> {
        let mut columns = Vec::new();
        for story in Story::ALL {
            let wrong = self.rows.iter().filter(|row| !row.ok);
            let of_story = wrong.filter(|row| row.cell.story == story);
            let nodes: BTreeSet<&str> = of_story.map(|row| &*row.cell.node).collect();
            if !nodes.is_empty() {
                columns.push((nodes, story.column().to_owned()));
            }
        }
        let mut places = Vec::new();
        for (nodes, columns) in group_by_value(columns) {
            let nodes: Vec<&str> = nodes.into_iter().collect();
            places.push(format!("{} on {}", in_words(&columns), name_nodes(&nodes)));
        }
        places
    }

    /// A line for each node, caller, family and protocol.
    fn table(&self, screen: Screen) -> String {
        let mut lines: BTreeMap<_, BTreeMap<Story, &Row>> = BTreeMap::new();
        for row in &self.rows {
            let cell = &row.cell;
            let line = (&cell.node, cell.caller, cell.family, cell.protocol);
            lines.entry(line).or_default().insert(cell.story, row);
        }
        let mut header = vec!["NODE", "CALLER", "FAMILY", "PROTOCOL"];
        header.extend(Story::ALL.map(Story::column));
        header.push("VERDICT");
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
            cells.push(verdict(is_ok).to_owned());
            rows.push(cells);
        }
        table_or_cards(screen, &header, &rows)
    }

    /// The table with its wrong cells in colour: each ends with a mark that no other cell has. Their
    /// spaces are usual ones from here on.
    fn painted(&self, table: &str) -> String {
        let wrong = self.rows.iter().filter(|row| !row.ok);
        let cells: BTreeSet<String> = wrong.map(seen_of_sent).collect();
        let mut text = table.to_owned();
        for cell in cells {
            // The space is before each cell; another number may end with this one.
            text = text.replace(&format!(" {cell}"), &format!(" {BAD}{cell}{BAD:#}"));
        }
        text.replace(NO_BREAK, " ")
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

    /// Why unseen calls are no problem, once, with the nodes.
    fn notes(&self) -> Option<String> {
        let noted = self.rows.iter().filter(|row| row.note.is_some());
        let nodes: BTreeSet<&str> = noted.clone().map(|row| row.cell.node.as_str()).collect();
        let note = noted.clone().find_map(|row| row.note)?;
        let nodes: Vec<&str> = nodes.into_iter().collect();
        Some(format!("  {}: {note}", name_nodes(&nodes)))
    }

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

/// `10 of 10`: calls that the agent saw, of those sent; marked if the row is wrong.
fn seen_of_sent(row: &Row) -> String {
    let mark = if row.ok { "" } else { " !" };
    format!("{} of {}{mark}", row.seen, row.sent).replace(' ', NO_BREAK)
}

/// A space at which no cell is folded.
const NO_BREAK: &str = "\u{a0}";

/// `10 dropped`: what became of the calls that the agent saw.
fn outcomes(row: &Row) -> String {
    let seen = row.outcomes.iter().filter(|(_, calls)| **calls > 0);
    let outcomes: Vec<String> = seen
        .map(|(outcome, calls)| format!("{calls} {outcome}"))
        .collect();
    if outcomes.is_empty() {
        return "-".to_owned();
    }
    outcomes.join(", ")
}

const fn verdict(is_ok: bool) -> &'static str {
    if is_ok { "ok" } else { "FAILED" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::MissingNode;
    use crate::check::plan::{Caller, Cell, Family};
    use clap::builder::StyledStr;
    use epguard_client::shared::calls::CallProtocol;
    use epguard_client::shared::screen::{TESTED, assert_fits};
    use serde_json::json;

    /// Two nodes of which each has seen its calls, but those to the finished pod that `unseen`
    /// tells.
    fn report(unseen: fn(&Cell) -> bool) -> CheckReport {
        let nodes = ["node-a", "node-b"].map(str::to_owned);
        let mut rows = Vec::new();
        for node in &nodes {
            for protocol in CallProtocol::ALL {
                for story in Story::ALL {
                    let cell = Cell {
                        node: node.clone(),
                        caller: Caller::Pod,
                        family: Family::V4,
                        protocol,
                        story,
                    };
                    let is_wrong = unseen(&cell);
                    let seen = if story.is_stale() && !is_wrong { 10 } else { 0 };
                    rows.push(Row {
                        sent: 10,
                        seen,
                        outcomes: [("observed".to_owned(), seen)].into(),
                        answered: 3,
                        ok: !is_wrong,
                        problem: is_wrong.then(|| Problem::new("10 sent, 0 seen", "look")),
                        note: None,
                        cell,
                    });
                }
            }
        }
        CheckReport::new(nodes.into(), rows, NotChecked::default())
    }

    fn plain(report: &CheckReport, full: bool) -> String {
        let text = report.to_text(Screen { width: None, full });
        StyledStr::from(text).to_string()
    }

    #[track_caller]
    fn assert_line(text: &str, line: &str) {
        let mut lines = text.lines();
        assert!(lines.any(|other| other.trim() == line), "{line}\n{text}");
    }

    #[test]
    fn a_wrong_cell_is_marked_counted_and_named_in_the_headline() {
        let some = report(|cell| cell.story == Story::Finished && cell.node == "node-a");
        let text = plain(&some, false);
        for line in [
            "2 nodes: 2 of 16 cells are wrong: FINISHED on node-a",
            "NODE    CALLER  FAMILY  PROTOCOL  FINISHED   REUSED    LIVE SERVICE  LIVE POD  VERDICT",
            "node-a  pod     IPv4    UDP       0 of 10 !  10 of 10  0 of 10       0 of 10   FAILED",
            "node-b  pod     IPv4    UDP       10 of 10   10 of 10  0 of 10       0 of 10   ok",
        ] {
            assert_line(&text, line);
        }
        let marked = format!(" {BAD}0 of 10 !{BAD:#}  10 of 10");
        assert!(some.to_text(Screen::default()).contains(&marked));
        assert_eq!(some.code(), FAILED);
        let one = report(|cell| cell.story == Story::Reused && cell.node == "node-a");
        let headline =
            |report: &CheckReport| plain(report, false).lines().next().unwrap().to_owned();
        assert!(headline(&one).ends_with(": REUSED on node-a"));
        let all = report(|cell| cell.story.is_stale());
        assert_eq!(
            headline(&all),
            "2 nodes: 8 of 16 cells are wrong: FINISHED and REUSED on node-a, node-b"
        );
        let well = report(|_| false);
        assert_eq!(
            headline(&well),
            "2 nodes: each call was seen as it has to be"
        );
        assert!(!plain(&well, false).contains('!'));
    }

    #[test]
    fn the_wide_table_shows_what_became_of_each_cells_calls() {
        let text = plain(&report(|cell| cell.story == Story::Finished), true);
        for line in [
            "NODE    CALLER  FAMILY  PROTOCOL  CALLED        SEEN       OUTCOME      ANSWERED  VERDICT",
            "node-a  pod     IPv4    TCP       FINISHED      0 of 10 !  -            3         FAILED",
            "node-a  pod     IPv4    TCP       REUSED        10 of 10   10 observed  3         ok",
        ] {
            assert_line(&text, line);
        }
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        let mut some = report(|cell| cell.story == Story::Finished && cell.node == "node-a");
        let cause =
            "the agent does not deny the endpoint: its pod has not ended as far as it knows";
        for row in &mut some.rows {
            row.cell.node = format!("ip-10-0-131-7.eu-west-1.compute.{}", row.cell.node);
            if !row.ok {
                row.problem = Some(Problem::new(cause, "what would change it: its end"));
            }
        }
        for width in TESTED {
            for full in [false, true] {
                let width = Some(width);
                let screen = Screen { width, full };
                let text = some.to_text(screen);
                assert_fits(&text, screen);
                let wrong = format!(" {BAD}0 of 10 !{BAD:#}");
                assert_eq!(text.matches(&wrong).count(), 2, "{text}");
            }
        }
    }

    #[test]
    fn nodes_without_an_agent_are_named_and_a_chosen_one_is_no_pass() {
        let mut well = report(|_| false);
        well.not_checked.nodes = vec![MissingNode::without_agent("node-c".into())];
        let text = plain(&well, false);
        let line = "not checked: node-c: no agent runs there: see the Events of the DaemonSet, its nodeSelector and \
                    tolerations";
        assert!(text.ends_with(&format!("\n\n{line}")), "{text}");
        assert_eq!(well.code(), 0);
        let document = serde_json::to_value(&well).unwrap();
        let missing = json!([{"node": "node-c", "why": "no agent runs there"}]);
        assert_eq!(document["notChecked"], missing);
        assert_eq!(document["ok"], true);
        well.not_checked.are_chosen = true;
        assert_eq!(well.code(), UNKNOWN);
        let mut unknown = report(|_| false);
        unknown.not_checked.unknown = Some("may not list nodes".into());
        let line = "not compared: nodes without an agent: may not list nodes";
        assert!(plain(&unknown, false).ends_with(line));
    }
}
