//! Denied flows for people.

use crate::shared::drops::{Dropped, clients};
use crate::shared::output::{Column, columned, count};

/// A kind of denied flows, and the nodes that count it; no nodes on one node.
#[derive(Debug, Clone)]
pub struct DropsRow {
    /// The counts.
    pub dropped: Dropped,
    /// Names of the nodes.
    pub nodes: String,
}

impl DropsRow {
    /// The row of a node's own table.
    pub fn of_one_node(dropped: &Dropped) -> Self {
        Self {
            dropped: dropped.clone(),
            nodes: String::new(),
        }
    }
}

/// The text in place of an empty table; `narrowed`: others may have been left out.
pub fn nothing_text(narrowed: bool) -> String {
    let scope = if narrowed { " that matches" } else { "" };
    format!("nothing{scope} was denied, and nothing would have been")
}

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

/// One row for each kind; `narrowed` as for [`nothing_text`]. Where rows name nodes, a last column
/// shows them.
pub fn drops_table(rows: &[DropsRow], narrowed: bool) -> String {
    if rows.is_empty() {
        return nothing_text(narrowed);
    }
    let has_nodes = rows.iter().any(|row| !row.nodes.is_empty());
    let columns = if has_nodes {
        &COLUMNS[..]
    } else {
        &COLUMNS[..COLUMNS.len() - 1]
    };
    columned(columns, rows)
}

/// One line for the new packets of one kind.
pub fn line_of(dropped: &Dropped) -> String {
    let kind = &dropped.kind;
    format!(
        "{} {} {} -> {} {}: {} was meant, {} is there ({} from {})",
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

/// An age in its largest useful unit, as kubectl shows ages.
pub fn short_age(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;
    use epguard_common::Reason;

    fn dropped() -> Dropped {
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

    #[test]
    fn a_kind_is_one_table_row_or_one_log_line() {
        let row = drops_table(&[DropsRow::of_one_node(&dropped())], false)
            .lines()
            .nth(1)
            .unwrap()
            .to_owned();
        let fields: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            fields.join(" "),
            "2m shop/web 10.244.1.10:8080 TCP reused dropped shop/a other/b 10.244.2.5,10.244.2.6 3 7"
        );
        assert_eq!(
            line_of(&dropped()),
            "dropped reused shop/web -> 10.244.1.10:8080 TCP: shop/a was meant, other/b is there (7 packets from 10.244.2.5,10.244.2.6)"
        );
    }

    #[test]
    fn ages_are_short() {
        let ages = [0, 119_999, 120_000, 7_200_000, 172_800_000].map(short_age);
        assert_eq!(ages, ["0s", "119s", "2m", "2h", "2d"]);
    }
}
