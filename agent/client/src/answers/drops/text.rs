//! Denied flows for people.

use super::cards::{cards, explain_line};
use super::row::{DropsRow, style_of};
use crate::shared::drops::{Dropped, clients};
use crate::shared::output::{Column, columned, count};
use crate::shared::screen::{Screen, short_age};
use std::fmt::Write as _;

/// The text in place of an empty table; `narrowed`: others may have been left out.
pub fn nothing_text(narrowed: bool) -> String {
    let scope = if narrowed { " that matches" } else { "" };
    format!("nothing{scope} was denied, and nothing would have been")
}

/// Which of [`COLUMNS`] is the outcome.
const OUTCOME: usize = 4;

/// Header and cell of each column.
const COLUMNS: [Column<DropsRow>; 11] = [
    ("LAST", |row| short_age(row.dropped.last_ms_ago)),
    ("SERVICE", |row| row.dropped.kind.service.clone()),
    ("ENDPOINT", |row| {
        format!(
            "{} {}",
            row.dropped.kind.endpoint(),
            row.dropped.kind.protocol
        )
    }),
    ("REASON", |row| row.dropped.kind.reason.to_string()),
    ("OUTCOME", |row| row.dropped.kind.outcome.to_string()),
    ("MEANT", |row| row.dropped.kind.meant.clone()),
    ("HIT", |row| row.dropped.kind.hit.clone()),
    ("CLIENTS SEEN", |row| clients(&row.dropped.clients)),
    ("SYNS", |row| row.dropped.openings.to_string()),
    ("PACKETS", |row| row.dropped.packets.to_string()),
    ("NODES", |row| row.nodes.clone()),
];

/// All rows with colours; `narrowed` as for [`nothing_text`]. On a terminal, a last line has the
/// command that explains the first one; `program` begins it.
pub fn drops_text(rows: &[DropsRow], narrowed: bool, screen: Screen, program: &str) -> String {
    let Some(first) = rows.first() else {
        return nothing_text(narrowed);
    };
    let table = drops_table(rows);
    let mut text = if screen.fits(&table) {
        painted(&table, rows)
    } else {
        cards(rows, screen)
    };
    if screen.width.is_some() {
        text.extend(explain_line(&first.dropped.kind, program));
    }
    text
}

/// One row for each kind. Where rows name nodes, a last column shows them.
fn drops_table(rows: &[DropsRow]) -> String {
    let has_nodes = rows.iter().any(|row| !row.nodes.is_empty());
    let columns = if has_nodes {
        &COLUMNS[..]
    } else {
        &COLUMNS[..COLUMNS.len() - 1]
    };
    columned(columns, rows)
}

/// The table with each outcome in its style.
fn painted(table: &str, rows: &[DropsRow]) -> String {
    let mut lines = table.lines();
    let mut text = lines.next().unwrap_or_default().to_owned();
    for (line, row) in lines.zip(rows) {
        text.push('\n');
        match start_of_outcome(line, row) {
            Some(start) => {
                let outcome = &*row.dropped.kind.outcome;
                let style = style_of(outcome);
                let (before, rest) = line.split_at(start);
                let after = &rest[outcome.len()..];
                let _ = write!(text, "{before}{style}{outcome}{style:#}{after}");
            }
            None => text.push_str(line),
        }
    }
    text
}

/// Where in its line the outcome of a row begins: only spaces are between two cells.
fn start_of_outcome(line: &str, row: &DropsRow) -> Option<usize> {
    let mut end = 0;
    for (_, cell) in &COLUMNS[..OUTCOME] {
        let cell = cell(row);
        end += line[end..].find(&cell)? + cell.len();
    }
    Some(end + line[end..].find(&*row.dropped.kind.outcome)?)
}

/// One line for the new packets of one kind.
pub fn line_of(dropped: &Dropped) -> String {
    let kind = &dropped.kind;
    let style = style_of(&kind.outcome);
    format!(
        "{style}{}{style:#} {} {} -> {} {}: {} was meant, {} is there ({} from {})",
        kind.outcome,
        kind.reason,
        kind.service,
        kind.endpoint(),
        kind.protocol,
        kind.meant,
        kind.hit,
        count(dropped.packets, "packet"),
        clients(&dropped.clients)
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Kind;
    use super::*;
    use crate::shared::screen::{BAD, CAUTION, ELSEWHERE};
    use clap::builder::StyledStr;
    use clap::builder::styling::Style;
    use epguard_common::Reason;

    pub fn dropped() -> Dropped {
        Dropped {
            kind: Kind {
                hit: "other/b".into(),
                ..Kind::sample(Reason::Reused)
            },
            packets: 7,
            bytes: 420,
            openings: 3,
            clients: vec![[10, 244, 2, 5].into(), [10, 244, 2, 6].into()],
            first_ms_ago: 400_000,
            last_ms_ago: 125_000,
        }
    }

    /// As without colours.
    pub fn bare(text: String) -> String {
        StyledStr::from(text).to_string()
    }

    #[test]
    fn a_kind_is_one_table_row_or_one_log_line() {
        let rows = [DropsRow::of_one_node(&dropped())];
        let table = bare(drops_text(&rows, false, Screen::default(), "epguard"));
        let lines: Vec<&str> = table.lines().collect();
        let fields: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(
            fields.join(" "),
            "2m shop/web 10.244.1.10:8080 TCP reused dropped shop/a other/b 10.244.2.5,10.244.2.6 3 7"
        );
        assert_eq!(lines.len(), 2, "a script gets only the table: {table}");
        assert_eq!(
            bare(line_of(&dropped())),
            "dropped reused shop/web -> 10.244.1.10:8080 TCP: shop/a was meant, other/b is there (7 packets from 10.244.2.5,10.244.2.6)"
        );
    }

    #[test]
    fn only_the_outcome_is_coloured_even_beside_a_service_of_its_name() {
        for (outcome, style) in [
            ("dropped", BAD),
            ("rejected", BAD),
            ("observed", CAUTION),
            ("redirected", ELSEWHERE),
            ("moved", Style::new()),
        ] {
            let mut dropped = dropped();
            dropped.kind.outcome = outcome.into();
            dropped.kind.service = format!("shop/{outcome}");
            let rows = [DropsRow::of_one_node(&dropped)];
            let text = drops_text(&rows, false, Screen::default(), "epguard");
            assert!(
                text.contains(&format!(" reused  {style}{outcome}{style:#} ")),
                "{text:?}"
            );
            assert!(text.contains(&format!(" shop/{outcome} ")), "{text:?}");
        }
    }

    #[test]
    fn ages_are_short() {
        let ages = [0, 119_999, 120_000, 7_200_000, 172_800_000].map(short_age);
        assert_eq!(ages, ["0s", "119s", "2m", "2h", "2d"]);
    }
}
