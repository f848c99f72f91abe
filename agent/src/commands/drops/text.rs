//! Denied flows for people.

use crate::shared::drops::{Dropped, clients};
use crate::shared::output::{count, table_of_nodes};

/// The text in place of an empty table; `narrowed`: others may have been left out.
#[must_use]
pub fn nothing(narrowed: bool) -> String {
    let scope = if narrowed { " that matches" } else { "" };
    format!("nothing{scope} was denied, and nothing would have been")
}

/// One row for each kind; `narrowed` as for [`nothing`]. With nodes, a column that names those of each row.
#[must_use]
pub fn table(all: &[Dropped], nodes: Option<&[String]>, narrowed: bool) -> String {
    const HEADER: [&str; 10] = [
        "LAST",
        "SERVICE",
        "ENDPOINT",
        "REASON",
        "OUTCOME",
        "MEANT",
        "HIT",
        "CLIENTS SEEN",
        "SYNS",
        "PACKETS",
    ];
    if all.is_empty() {
        return nothing(narrowed);
    }
    let rows = all.iter().map(|dropped| {
        let kind = &dropped.kind;
        vec![
            ago(dropped.last_ms_ago),
            kind.service.clone(),
            format!("{} {}", kind.endpoint(), kind.protocol),
            kind.reason.to_string(),
            kind.outcome.to_string(),
            kind.meant.clone(),
            kind.hit.clone(),
            clients(&dropped.clients),
            dropped.openings.to_string(),
            dropped.packets.to_string(),
        ]
    });
    table_of_nodes(&HEADER, rows, nodes)
}

/// One line for the new packets of one kind.
#[must_use]
pub fn line(dropped: &Dropped) -> String {
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
#[must_use]
pub fn ago(ms: u64) -> String {
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

    fn dropped() -> Dropped {
        Dropped {
            kind: Kind {
                service: "shop/web".into(),
                endpoint: "10.244.1.10:8080".parse().unwrap(),
                protocol: "TCP".into(),
                reason: epguard_common::Reason::Reused,
                outcome: epguard_common::Outcome::Dropped,
                meant: "shop/a".into(),
                hit: "other/b".into(),
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
        let row = table(&[dropped()], None, false).lines().nth(1).unwrap().to_owned();
        let fields: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            fields.join(" "),
            "2m shop/web 10.244.1.10:8080 TCP reused dropped shop/a other/b 10.244.2.5,10.244.2.6 3 7"
        );
        assert_eq!(
            line(&dropped()),
            "dropped reused shop/web -> 10.244.1.10:8080 TCP: shop/a was meant, other/b is there (7 packets from 10.244.2.5,10.244.2.6)"
        );
    }

    #[test]
    fn ages_are_short() {
        let ages = [0, 119_999, 120_000, 7_200_000, 172_800_000].map(ago);
        assert_eq!(ages, ["0s", "119s", "2m", "2h", "2d"]);
    }
}
