//! Each test that a table of the documentation or a mutation names exists.
//!
//! A column `test` of a table lists the evidence for each row: test functions or scenario files, in
//! backticks.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_test_that_a_table_or_a_mutation_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let known = known(&root);
    let mut cited = 0;
    let mut missing = Vec::new();
    let pages = files(&root.join("docs"), "md").into_iter();
    for file in pages.chain(files(&root.join("xtask/mutations"), "patch")) {
        let text = fs::read_to_string(&file).unwrap();
        let reverted = text
            .lines()
            .find_map(|line| line.strip_prefix("# test: ")?.rsplit([':', ' ']).next());
        for name in cited_in(&text)
            .into_iter()
            .chain(reverted.map(str::to_owned))
        {
            cited += 1;
            if !known.contains(&name) {
                missing.push(format!("{}: {name}", file.display()));
            }
        }
    }
    assert!(missing.is_empty(), "no such test: {missing:#?}");
    assert!(
        cited > 20,
        "only {cited} tests are named: is the column still called `test`?"
    );
}

#[test]
fn names_are_read_from_the_column_test_only() {
    let page = "| row | test |\n|---|---|\n| `a` | `b`, `c` |\n\n| what | result |\n|---|---|\n| `d` | `e` |\n";
    assert_eq!(cited_in(page), ["b", "c"]);
}

/// Names in backticks in columns with the title `test`.
fn cited_in(page: &str) -> Vec<String> {
    let mut column = None;
    let mut names = Vec::new();
    for line in page.lines() {
        if !line.starts_with('|') {
            column = None;
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        match column {
            None => column = Some(cells.iter().position(|cell| *cell == "test")),
            Some(Some(test)) => {
                let cell = cells.get(test).copied().unwrap_or_default();
                let paths = cell.split('`').skip(1).step_by(2);
                names.extend(paths.filter_map(|path| Some(path.rsplit("::").next()?.to_owned())));
            }
            Some(None) => {}
        }
    }
    names
}

/// Functions of all tests, and scenario files without `.yaml`.
fn known(root: &Path) -> BTreeSet<String> {
    let rooms = ["agent", "common", "ebpf", "lab", "xtask"];
    let sources = rooms.iter().flat_map(|room| files(&root.join(room), "rs"));
    let functions = sources.flat_map(|source| {
        let text = fs::read_to_string(source).unwrap();
        text.lines()
            .filter_map(|line| {
                let (_, rest) = line.split_once("fn ")?;
                Some(rest.split(['(', '<']).next()?.to_owned())
            })
            .collect::<Vec<_>>()
    });
    let stories = files(&root.join("lab/scenarios"), "yaml");
    let stories = stories
        .iter()
        .map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned());
    functions.chain(stories).collect()
}

/// Files with this extension, in all subfolders except build directories.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}
