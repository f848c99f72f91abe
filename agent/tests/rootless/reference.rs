//! Compares docs/reference.md with the tables of the program.

use super::pages::{assert_rows, repository};
use clap::CommandFactory as _;
use epguard::cli::Cli;
use epguard_common::Role;
use epguard_core::facts::{STATIC_IPS, StaticIp};

#[test]
fn the_row_of_interfaces_has_the_number_and_name_of_each_role() {
    let page = repository("docs/reference.md");
    let row = page.split("\n* ").find(|row| row.starts_with("`INTERFACES`:")).unwrap();
    for role in Role::ALL {
        let named = format!("{} `{}`", role as u32, role.as_str());
        assert!(row.contains(&named), "{named}");
    }
}

#[test]
fn the_table_of_ips_that_outlive_their_pods_has_each_workload_and_mark() {
    let row = |row: &StaticIp| vec![row.workload.to_owned(), row.marks()];
    let rows: Vec<_> = STATIC_IPS.iter().map(row).collect();
    assert_rows("docs/reference.md", "IPs that outlive their pods", "workload", &rows);
}

#[test]
fn a_page_shows_each_verb() {
    let pages: String = repository("docs/SUMMARY.md")
        .split(['(', ')'])
        .filter_map(|word| word.strip_suffix(".md"))
        .map(|page| repository(&format!("docs/{page}.md")))
        .collect();
    for verb in Cli::command().get_subcommands() {
        let shown = format!("epguard {}", verb.get_name());
        let mut followed = pages.match_indices(&shown).map(|(at, _)| &pages[at + shown.len()..]);
        assert!(followed.any(|rest| !rest.starts_with(|c: char| c.is_alphanumeric())), "{shown}");
    }
}
