//! Reads the tables of the pages, so that tests compare them with the tables of the program.

use std::path::Path;

/// A file of the repository.
pub fn repository(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    std::fs::read_to_string(path).unwrap()
}

/// Compares the first table below a heading whose first column has this head with the program's rows. A row may have
/// fewer cells than that of the page, and the page may say more behind its last cell: `. And more`.
pub fn assert_rows(page: &str, heading: &str, first: &str, rows: &[Vec<String>]) {
    let written = table_under(page, heading, first);
    for row in rows {
        assert!(
            written.iter().any(|cells| agrees(cells, row)),
            "{page}, {heading}: no row | {} |",
            row.join(" | ")
        );
    }
    let only_there = written.iter().find(|cells| !rows.iter().any(|row| agrees(cells, row)));
    assert_eq!(only_there, None, "{page}, {heading}: the program has no such row");
}

/// Whether a row of a page agrees with one of the program, as of [`assert_rows`].
pub fn agrees(cells: &[String], row: &[String]) -> bool {
    let last = row.len() - 1;
    let begins = cells[last].strip_prefix(&row[last]);
    cells[..last] == row[..last] && begins.is_some_and(|more| more.is_empty() || more.starts_with(". "))
}

/// The rows of the first table below a heading whose first column has this head, as trimmed cells.
pub fn table_under(page: &str, heading: &str, first: &str) -> Vec<Vec<String>> {
    let text = repository(page);
    let begin =
        text.find(&format!("# {heading}\n")).unwrap_or_else(|| panic!("{page}: no heading {heading}"));
    let below = text[begin..].lines().skip(1).take_while(|line| !line.starts_with("## "));
    let head = format!("| {first} |");
    let table = below.skip_while(|line| !line.starts_with(&head)).skip(2);
    let rows: Vec<Vec<String>> = table
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect();
    assert!(!rows.is_empty(), "{page}: no table of {first} below {heading}");
    rows
}
