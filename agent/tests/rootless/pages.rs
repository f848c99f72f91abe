//! Compares the pages with the tables of the program.

use clap::CommandFactory as _;
use epguard::cli::Cli;
use epguard_client::answers::audit::FlowState;
use epguard_client::lint::LintProblem;
use epguard_common::{Action, Effect, Mode, Outcome, Reason, Role};
use epguard_core::facts::{STATIC_IPS, StaticIp};
use std::path::Path;
use strum::{EnumMessage as _, VariantArray as _};

/// A file of the repository.
pub fn repository(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    std::fs::read_to_string(path).unwrap()
}

/// Compares the first table below a heading whose first column has this head with the program's
/// rows. A row may have fewer cells than that of the page, and the page may say more behind its
/// last cell: `. And more`.
pub fn assert_rows(page: &str, heading: &str, first: &str, rows: &[Vec<String>]) {
    let written = table_under(page, heading, first);
    for row in rows {
        assert!(
            written.iter().any(|cells| agrees(cells, row)),
            "{page}, {heading}: no row | {} |",
            row.join(" | ")
        );
    }
    let only_there = written
        .iter()
        .find(|cells| !rows.iter().any(|row| agrees(cells, row)));
    assert_eq!(
        only_there, None,
        "{page}, {heading}: the program has no such row"
    );
}

/// Whether a row of a page agrees with one of the program, as of [`assert_rows`].
pub fn agrees(cells: &[String], row: &[String]) -> bool {
    let last = row.len() - 1;
    let begins = cells[last].strip_prefix(&row[last]);
    cells[..last] == row[..last]
        && begins.is_some_and(|more| more.is_empty() || more.starts_with(". "))
}

/// The rows of the first table below a heading whose first column has this head, as trimmed cells.
pub fn table_under(page: &str, heading: &str, first: &str) -> Vec<Vec<String>> {
    let text = repository(page);
    let begin = text
        .find(&format!("# {heading}\n"))
        .unwrap_or_else(|| panic!("{page}: no heading {heading}"));
    let below = text[begin..]
        .lines()
        .skip(1)
        .take_while(|line| !line.starts_with("## "));
    let head = format!("| {first} |");
    let table = below.skip_while(|line| !line.starts_with(&head)).skip(2);
    let rows: Vec<Vec<String>> = table
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            line.trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().to_owned())
                .collect()
        })
        .collect();
    assert!(
        !rows.is_empty(),
        "{page}: no table of {first} below {heading}"
    );
    rows
}

#[test]
fn the_page_of_lint_says_of_each_finding_what_happens_if_its_advice_is_followed() {
    let page = repository("docs/lint.md");
    let sections = page.split("\n## `").skip(1);
    let mut described = Vec::new();
    for section in sections {
        let (name, text) = section.split_once("`\n\n").unwrap();
        let problem = LintProblem::VARIANTS
            .iter()
            .find(|one| one.to_string() == name);
        let problem = problem.unwrap_or_else(|| panic!("no finding has the name {name}"));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let meaning = problem.get_documentation().unwrap().replace('\n', " ");
        assert!(
            words.starts_with(&meaning.replace("`EndpointSlice`", "EndpointSlice")),
            "{name}: {meaning}"
        );
        let mut rest = text;
        for label in [
            "**It means:** ",
            "**The advice:** ",
            "**If it is followed:** ",
        ] {
            let found = rest.split_once(&format!("\n{label}"));
            rest = found.unwrap_or_else(|| panic!("{name}: {label}")).1;
        }
        described.push(*problem);
    }
    described.sort();
    assert_eq!(described, LintProblem::VARIANTS);
}

#[test]
fn troubleshooting_says_what_each_state_of_the_audit_means() {
    let page = repository("docs/troubleshooting.md");
    let (_, below) = page
        .split_once("## Something still leads to a dead pod")
        .unwrap();
    for state in FlowState::VARIANTS {
        assert!(below.contains(&format!("`{state}`")), "{state}");
    }
}

#[test]
fn the_row_of_interfaces_has_the_number_and_name_of_each_role() {
    let page = repository("docs/reference.md");
    let row = page
        .split("\n* ")
        .find(|row| row.starts_with("`INTERFACES`:"))
        .unwrap();
    for role in Role::ALL {
        let named = format!("{} `{}`", role as u32, role.as_str());
        assert!(row.contains(&named), "{named}");
    }
}

#[test]
fn the_table_of_ips_that_outlive_their_pods_has_each_workload_and_mark() {
    let rows: Vec<_> = STATIC_IPS
        .iter()
        .map(|row: &StaticIp| vec![row.workload.to_owned(), row.marks()])
        .collect();
    assert_rows(
        "docs/reference.md",
        "IPs that outlive their pods",
        "workload",
        &rows,
    );
}

#[test]
fn a_page_shows_each_verb() {
    let pages: String = repository("docs/SUMMARY.md")
        .split(['(', ')'])
        .filter_map(|word| word.strip_suffix(".md"))
        .map(|page| repository(&format!("docs/{page}.md")))
        .collect();
    let command = Cli::command();
    let verbs = command.get_subcommands();
    for verb in verbs.filter(|verb| !verb.is_hide_set()) {
        let shown = format!("epguard {}", verb.get_name());
        let mut followed = pages
            .match_indices(&shown)
            .map(|(at, _)| &pages[at + shown.len()..]);
        assert!(
            followed.any(|rest| !rest.starts_with(|c: char| c.is_alphanumeric())),
            "{shown}"
        );
    }
}

fn code(name: impl std::fmt::Display) -> String {
    format!("`{name}`")
}

#[test]
fn the_pages_list_every_reason_with_its_packets_and_its_default() {
    let verdicts = table_under("docs/verdicts.md", "Reasons", "reason");
    let readme = table_under("README.md", "What is denied", "reason");
    assert_eq!(
        (verdicts.len(), readme.len()),
        (Reason::TO_DENY.len(), Reason::TO_DENY.len())
    );
    for ((reason, row), short) in Reason::TO_DENY.into_iter().zip(&verdicts).zip(&readme) {
        let terms = reason.terms();
        assert_eq!((&row[0], &short[0]), (&code(reason), &code(reason)));
        assert_eq!(row[1], terms.packets, "{reason}");
        let (words, short_words) = match terms.default {
            Mode::Enforce => ("denied", "yes"),
            Mode::Observe => ("observed", "observed only"),
            Mode::Off => panic!("{reason} is off by default"),
        };
        assert!(
            row[2].starts_with(words) && short[3].starts_with(short_words),
            "{reason}"
        );
    }
}

#[test]
fn the_page_lists_every_action_with_its_outcome() {
    let found: Vec<(String, String)> =
        table_under("docs/actions.md", "Actions and opt-out", "action")
            .into_iter()
            .map(|row| {
                let word = |cell: &str| cell.split('`').nth(1).unwrap().to_owned();
                (word(&row[0]), word(row.last().unwrap()))
            })
            .collect();
    let known: Vec<(String, String)> = Outcome::stopped()
        .map(|outcome| match outcome.effect() {
            Effect::Stopped(action) => (action.to_string(), outcome.to_string()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(found, known);
    assert_eq!(known.len(), Action::ALL.len() - 1);
}

#[test]
fn the_page_lists_every_other_outcome() {
    let found = table_under("docs/verdicts.md", "Outcomes", "outcome");
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
