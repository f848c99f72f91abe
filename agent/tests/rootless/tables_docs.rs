//! The tables of the pages are those of the code: reasons, actions, outcomes.

use epguard_common::{Action, Effect, Mode, Outcome, Reason};
use std::path::Path;

/// The cells of each row of the table with this heading.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let from = text.find(heading).unwrap_or_else(|| panic!("{page} has no table {heading}"));
    let rows = text[from..].lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}

fn code(name: impl std::fmt::Display) -> String {
    format!("`{name}`")
}

#[test]
fn the_pages_list_every_reason_with_its_packets_and_its_default() {
    let verdicts = rows("docs/verdicts.md", "| reason | packets | by default, in `enforce` |");
    let readme = rows("README.md", "| reason | the packet goes to a Service's endpoint whose pod |");
    assert_eq!((verdicts.len(), readme.len()), (Reason::TO_DENY.len(), Reason::TO_DENY.len()));
    for ((reason, row), short) in Reason::TO_DENY.into_iter().zip(&verdicts).zip(&readme) {
        let terms = reason.terms();
        assert_eq!((&row[0], &short[0]), (&code(reason), &code(reason)));
        assert_eq!(row[1], terms.packets, "{reason}");
        let (words, short_words) = match terms.default {
            Mode::Enforce => ("denied", "yes"),
            Mode::Observe => ("observed", "observed only"),
            Mode::Off => panic!("{reason} is off by default"),
        };
        assert!(row[2].starts_with(words) && short[3].starts_with(short_words), "{reason}");
    }
}

#[test]
fn the_page_lists_every_action_with_its_outcome() {
    let found: Vec<(String, String)> = rows("docs/actions.md", "| action | what becomes of the packet |")
        .into_iter()
        .map(|row| {
            let word = |cell: &str| cell.split('`').nth(1).unwrap().to_owned();
            (word(&row[0]), word(row.last().unwrap()))
        })
        .collect();
    let known: Vec<(String, String)> = Outcome::stopped()
        .map(|outcome| match outcome.effect() {
            Effect::Stopped(action) if action.choosers().interface => {
                (format!("{action}=IFACE"), outcome.to_string())
            }
            Effect::Stopped(action) => (action.to_string(), outcome.to_string()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(found, known);
    assert_eq!(known.len(), Action::ALL.len() - 1);
}

#[test]
fn the_page_lists_every_other_outcome() {
    let found = rows("docs/verdicts.md", "| outcome | packet | meaning |");
    let mut found: Vec<String> = found.into_iter().map(|row| row[0].clone()).collect();
    let mut known: Vec<String> = Outcome::ALL
        .into_iter()
        .filter(|outcome| !matches!(outcome.effect(), Effect::Stopped(_)))
        .map(code)
        .collect();
    found.sort();
    known.sort();
    assert_eq!(found, known);
}
