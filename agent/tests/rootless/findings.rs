//! Compares the tables of findings with the pages.

use super::pages::{assert_rows, repository};
use epguard::commands::audit::State;
use epguard::commands::lint::Problem;
use strum::{EnumMessage as _, VariantArray as _};

#[test]
fn the_page_of_lint_has_a_row_for_each_finding() {
    let rows = Problem::VARIANTS.iter().map(|problem| {
        let meaning = problem.get_documentation().unwrap();
        vec![format!("`{problem}`"), meaning.to_owned()]
    });
    let rows: Vec<_> = rows.collect();
    assert_rows("docs/operate.md", "Lint", "finding", &rows);
}

#[test]
fn troubleshooting_says_what_each_state_of_the_audit_means() {
    let page = repository("docs/troubleshooting.md");
    let (_, below) = page.split_once("## Something still leads to a dead pod").unwrap();
    for state in State::VARIANTS {
        assert!(below.contains(&format!("`{state}`")), "{state}");
    }
}
