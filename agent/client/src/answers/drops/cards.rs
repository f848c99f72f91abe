//! Denied flows where the terminal is narrower than their table: a card each.

use super::row::{DropsRow, style_of};
use crate::shared::args;
use crate::shared::drops::{Kind, NONE, clients};
use crate::shared::output::count;
use crate::shared::screen::{Screen, ago};

/// A card for each row, with an empty line between them.
pub(super) fn cards(rows: &[DropsRow], screen: Screen) -> String {
    let cards: Vec<String> = rows.iter().map(card).collect();
    screen.fold(&cards.join("\n\n"))
}

/// ```text
/// 8 s ago     DROPPED (reused)  shop/web -> 10.244.1.10:8080 TCP
///             meant  shop/web-x2x4z
///             hit    payments/api-abcde
///             from   10.244.1.13
///             count  3 SYNs, 3 packets on worker-1
/// ```
fn card(row: &DropsRow) -> String {
    let DropsRow { dropped, nodes } = row;
    let kind = &dropped.kind;
    let style = style_of(&kind.outcome);
    let mut protocol = String::new();
    if kind.protocol != NONE {
        protocol = format!(" {}", kind.protocol);
    }
    let aim = format!("{} -> {}{protocol}", kind.service, kind.endpoint());
    let mut place = String::new();
    if !nodes.is_empty() {
        place = format!(" on {nodes}");
    }
    let opened = count(dropped.openings, "SYN");
    let packets = count(dropped.packets, "packet");
    let facts = [
        ("meant", kind.meant.clone()),
        ("hit", kind.hit.clone()),
        ("from", clients(&dropped.clients).replace(',', ", ")),
        ("count", format!("{opened}, {packets}{place}")),
    ];
    let mut lines = vec![format!(
        "{:<11} {style}{}{style:#} ({})  {aim}",
        ago(dropped.last_ms_ago),
        kind.outcome.to_uppercase(),
        kind.reason
    )];
    for (name, value) in facts {
        lines.push(format!("{:12}{name:<6} {value}", ""));
    }
    lines.join("\n")
}

/// The command that explains a denial, on a line of its own below an empty one. It is never folded,
/// so that it can be copied. None for a name that a shell may read otherwise.
pub(super) fn explain_line(kind: &Kind, program: &str) -> Option<String> {
    let mut endpoint = kind.endpoint();
    if endpoint.contains('[') {
        // Shells read brackets as a pattern.
        endpoint = format!("'{endpoint}'");
    }
    if kind.service == NONE {
        return Some(format!("\n\nexplain: {program} why {endpoint}"));
    }
    let service = args::plain_service(&kind.service)?;
    Some(format!(
        "\n\nexplain: {program} why {endpoint} --service {service}"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::text::drops_text;
    use super::super::text::tests::{bare, dropped};
    use super::*;
    use crate::shared::screen::{TESTED, assert_fits};

    fn row() -> DropsRow {
        let mut dropped = dropped();
        dropped.kind.meant = "shop/web-frontend-5d4f8c7b9d-x2x4z".into();
        dropped.kind.hit = "payments/api-gateway-7c9f8d6b5-abcde".into();
        dropped.last_ms_ago = 8_000;
        DropsRow {
            dropped,
            nodes: "worker-1, worker-2, worker-3, worker-4 and 46 others".into(),
        }
    }

    fn shown(rows: &[DropsRow], width: usize) -> String {
        let screen = Screen {
            width: Some(width),
            full: false,
        };
        let text = bare(drops_text(rows, false, screen, "kubectl epguard"));
        let (cards, _command) = text.rsplit_once("\n\n").unwrap_or((&text, ""));
        assert_fits(cards, screen);
        text
    }

    #[test]
    fn a_card_has_all_of_a_row_and_ends_with_the_command_that_explains_it() {
        assert_eq!(
            shown(&[row()], 80),
            "8 s ago     DROPPED (reused)  shop/web -> 10.244.1.10:8080 TCP
            meant  shop/web-frontend-5d4f8c7b9d-x2x4z
            hit    payments/api-gateway-7c9f8d6b5-abcde
            from   10.244.2.5, 10.244.2.6
            count  3 SYNs, 7 packets on worker-1, worker-2, worker-3, worker-4
              and 46 others

explain: kubectl epguard why 10.244.1.10:8080 --service shop/web"
        );
    }

    #[test]
    fn cards_stand_where_the_table_does_not_fit() {
        for width in TESTED {
            let text = shown(&[row(), row()], width);
            assert_eq!(text.matches("meant  ").count(), 2, "{width}: {text}");
        }
        assert!(shown(&[row()], 300).starts_with(" LAST  SERVICE"));
    }

    #[test]
    fn a_denial_of_the_ip_itself_is_explained_without_a_service() {
        let mut row = row();
        row.dropped.kind.service = NONE.into();
        row.dropped.kind.protocol = NONE.into();
        row.dropped.kind.endpoint.set_port(0);
        let text = shown(&[row], 80);
        assert!(text.contains("(reused)  - -> 10.244.1.10\n"), "{text}");
        assert!(
            text.ends_with("explain: kubectl epguard why 10.244.1.10"),
            "{text}"
        );
    }

    #[test]
    fn an_ipv6_endpoint_is_quoted_in_the_command() {
        let mut row = row();
        row.dropped.kind.endpoint = "[fd00::a]:8080".parse().unwrap();
        let text = shown(&[row], 80);
        let command = "explain: kubectl epguard why '[fd00::a]:8080' --service shop/web";
        assert!(text.ends_with(command), "{text}");
    }

    #[test]
    fn a_name_that_a_shell_would_run_is_in_no_command() {
        let mut row = row();
        row.dropped.kind.service = "shop/web;reboot".into();
        let text = shown(&[row], 80);
        assert!(!text.contains("explain:"), "{text}");
    }
}
