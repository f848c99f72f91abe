//! The agents: equal ones in one row, or one row each.

use crate::answers::StatusAnswer;
use epguard_client::answers::status::lease_text;
use epguard_client::shared::output::{Column, columned, columned_on, seconds};
use epguard_client::shared::screen::Screen;
use epguard_common::Mode;
use std::cmp::Reverse;

/// From so many nodes on, equal ones share a row.
const MANY: usize = 20;

/// One agent, or several that are equal in all that is not a number.
#[derive(Debug, Clone)]
struct AgentRow {
    /// The name of the node, or how many there are.
    nodes: String,
    count: usize,
    state: &'static str,
    mode: &'static str,
    enforces: bool,
    set_by: String,
    version: String,
    /// Age of the view, of the least fresh agent; none: one has none yet.
    view_age_ms: Option<u64>,
    /// IPs that packets are denied to, or would be: the largest number of an agent.
    denied: u64,
    /// Denials that were wrong, of all.
    wrong: u64,
    /// What only a row of one node shows.
    lease: String,
    interfaces: String,
    kernel: String,
    pod: String,
}

impl AgentRow {
    fn of(answer: &StatusAnswer) -> Self {
        let status = &answer.known.status;
        let interfaces = &status.interfaces;
        let attached = interfaces.iter().filter(|at| at.attached).count();
        let is_well = answer.known.problems.is_empty();
        Self {
            nodes: answer.agent.node.clone(),
            count: 1,
            state: if is_well { "well" } else { "degraded" },
            mode: status.mode_name(),
            enforces: status.mode == Some(Mode::Enforce),
            set_by: status.mode_source.to_string(),
            version: status.version.clone(),
            view_age_ms: status.view_age_ms,
            denied: status.denied_ips(),
            wrong: status.wrong_denies.values().sum(),
            lease: lease_text(status),
            interfaces: format!("{attached} of {}", interfaces.len()),
            kernel: status.kernel.clone(),
            pod: answer.agent.pod.clone(),
        }
    }

    fn is_equal_to(&self, other: &Self) -> bool {
        self.state == other.state
            && self.mode == other.mode
            && self.set_by == other.set_by
            && self.version == other.version
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.nodes = self.count.to_string();
        self.view_age_ms = match (self.view_age_ms, other.view_age_ms) {
            (Some(one), Some(other)) => Some(one.max(other)),
            _ => None,
        };
        self.denied = self.denied.max(other.denied);
        self.wrong = self.wrong.saturating_add(other.wrong);
    }
}

const DENIED: Column<AgentRow> = ("DENIED", |row| {
    if row.enforces {
        row.denied.to_string()
    } else {
        "-".to_owned()
    }
});
const WOULD_DENY: Column<AgentRow> = ("WOULD DENY", |row| {
    if row.enforces || row.mode == Mode::Off.as_str() {
        "-".to_owned()
    } else {
        row.denied.to_string()
    }
});
/// What only a wide table shows.
const MORE: [Column<AgentRow>; 4] = [
    ("LEASE", |row| row.lease.clone()),
    ("INTERFACES", |row| row.interfaces.clone()),
    ("KERNEL", |row| row.kernel.clone()),
    ("POD", |row| row.pod.clone()),
];

/// A row for each node, degraded ones first, if all are asked for, or if there are few and the screen is wide enough;
/// else a row for equal ones. Empty without agents.
pub fn agent_table(answers: &[StatusAnswer], screen: Screen) -> String {
    let mut rows: Vec<AgentRow> = answers.iter().map(AgentRow::of).collect();
    rows.sort_by_key(|row| row.state == "well");
    if rows.is_empty() {
        return String::new();
    }
    let mut columns = columns("NODE", &rows);
    if screen.full {
        columns.extend(MORE);
        return columned_on(screen, &columns, &rows);
    }
    if rows.len() < MANY {
        let each = columned(&columns, &rows);
        if screen.fits(&each) {
            return each;
        }
    }
    let rows = folded(&rows);
    let mut columns = self::columns("NODES", &rows);
    let table = columned_on(screen, &columns, &rows);
    if screen.fits(&table) {
        return table;
    }
    columns.retain(|(header, _)| *header != VERSION);
    columned_on(screen, &columns, &rows)
}

/// The column that the narrowest screens lack: the headline and the differences show versions.
const VERSION: &str = "VERSION";

/// The columns of all tables. What is denied and what would be have one each, if they differ.
fn columns(nodes: &'static str, rows: &[AgentRow]) -> Vec<Column<AgentRow>> {
    let mut columns: Vec<Column<AgentRow>> = vec![
        (nodes, |row| row.nodes.clone()),
        ("STATE", |row| row.state.to_owned()),
        ("MODE", |row| row.mode.to_owned()),
        ("SET BY", |row| row.set_by.clone()),
        (VERSION, |row| row.version.clone()),
        ("LEAST FRESH", |row| {
            row.view_age_ms.map_or_else(|| "never".to_owned(), seconds)
        }),
    ];
    if rows.iter().any(|row| row.enforces) {
        columns.push(DENIED);
    }
    if rows.iter().any(|row| !row.enforces) {
        columns.push(WOULD_DENY);
    }
    columns.push(("WRONG", |row| row.wrong.to_string()));
    columns
}

/// Equal rows as one: degraded ones first, then those of the most nodes.
fn folded(rows: &[AgentRow]) -> Vec<AgentRow> {
    let mut folded: Vec<AgentRow> = Vec::new();
    for row in rows {
        match folded.iter_mut().find(|other| other.is_equal_to(row)) {
            Some(sum) => sum.add(row),
            None => folded.push(AgentRow {
                nodes: "1".to_owned(),
                ..row.clone()
            }),
        }
    }
    folded.sort_by_key(|row| (row.state == "well", Reverse(row.count)));
    folded
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agent, agents};
    use super::*;
    use epguard_client::shared::screen::{TESTED, assert_fits};
    use epguard_client::shared::status::ModeSource;

    fn screen(width: usize) -> Screen {
        Screen {
            width: Some(width),
            full: false,
        }
    }

    #[test]
    fn equal_nodes_share_a_row_and_degraded_ones_come_first() {
        let mut answers = agents(25);
        let mut stale = agent(26, &["not every watch has shown a list"]);
        stale.known.status.view_age_ms = None;
        answers.push(stale);
        answers[3].known.status.view_age_ms = Some(9000);
        answers[4].known.status.figures.ips.clear();
        assert_eq!(
            agent_table(&answers, Screen::default()),
            " NODES  STATE     MODE     SET BY       VERSION  LEAST FRESH  WOULD DENY  WRONG
 1      degraded  observe  mode policy  0.1.0    never        2           0
 25     well      observe  mode policy  0.1.0    9 s          2           0"
        );
    }

    #[test]
    fn few_nodes_have_a_row_each_and_all_have_one_in_a_wide_table() {
        let rows = |count, full| {
            let screen = Screen { width: None, full };
            agent_table(&agents(count), screen).lines().count() - 1
        };
        assert_eq!(
            [rows(19, false), rows(20, false), rows(20, true)],
            [19, 1, 20]
        );
    }

    #[test]
    fn a_degraded_node_is_above_the_others_also_where_each_has_a_row() {
        let answers = [agent(1, &[]), agent(2, &["p"]), agent(3, &["p"])];
        let table = agent_table(&answers, Screen::default());
        let mut nodes = table.lines().skip(1).map(|row| &row[1..9]);
        let order: [Option<&str>; 3] = std::array::from_fn(|_| nodes.next());
        assert_eq!(
            order,
            [Some("worker-2"), Some("worker-3"), Some("worker-1")]
        );
    }

    #[test]
    fn denied_and_would_deny_are_told_apart_where_modes_differ() {
        let mut answers = agents(2);
        let header = |answers: &[StatusAnswer]| {
            let table = agent_table(answers, Screen::default());
            let header = table.lines().next().unwrap().to_owned();
            ["DENIED", "WOULD DENY"].map(|column| header.contains(column))
        };
        assert_eq!(header(&answers), [false, true]);
        answers[0].known.status.mode = Some(Mode::Enforce);
        assert_eq!(header(&answers), [true, true]);
        let table = agent_table(&answers, Screen::default());
        assert!(table.contains(" 2       -           0"), "{table}");
        assert!(table.contains(" -       2           0"), "{table}");
        answers[1].known.status.mode = Some(Mode::Enforce);
        assert_eq!(header(&answers), [true, false]);
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        let mut answers = agents(3);
        answers[0].known.status.mode = Some(Mode::Enforce);
        answers[1].known.status.mode_source = ModeSource::Pinned;
        for answer in &mut answers {
            let node = &mut answer.agent.node;
            *node = format!("ip-10-0-131-{node}.eu-west-1.compute.internal");
        }
        for width in TESTED {
            let text = agent_table(&answers, screen(width));
            assert_fits(&text, screen(width));
            assert!(text.contains("NODE"), "{text}");
        }
        let wide = agent_table(
            &answers,
            Screen {
                width: None,
                full: false,
            },
        );
        assert!(wide.contains("eu-west-1"), "{wide}");
    }
}
