//! Every command of the README and of docs/: in a shell on node-a, beside the agent of the
//! `DaemonSet` and a Service with a dead endpoint.

mod pages;
mod rig;
mod tables;

use pages::Command;
use rig::Rig;
use tables::{BECOMES, BEFORE, EXIT_CODES, NOT_RUN, SHOWN, is_meant};

/// The section whose commands remove epguard: they come last, wherever else the pages have them.
const LAST: (&str, &str) = ("docs/upgrade.md", "Uninstall");

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs; needs kubectl, Helm's engine, bpftool and jq"]
fn every_command_of_the_pages_runs_with_the_exit_code_that_they_name() {
    let (others, last) = to_run();
    let mut rig = Rig::start();
    for page in others.chunk_by(|one, next| one.page == next.page) {
        for command in page {
            rig.run(command);
        }
        rig.reset_modes();
    }
    for command in &last {
        rig.run(command);
    }
    let wrong = rig.end();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_command_that_is_special_is_in_a_page() {
    let all = pages::commands();
    let not_run = NOT_RUN.iter().map(|(entry, _)| entry);
    let others = EXIT_CODES.iter().map(|(entry, ..)| entry);
    let others = others.chain(
        BEFORE
            .iter()
            .chain(&SHOWN)
            .chain(&BECOMES)
            .map(|(entry, _)| entry),
    );
    for entry in not_run.chain(others) {
        let is_in_a_page = all.iter().any(|command| is_meant(entry, &command.text));
        assert!(
            is_in_a_page,
            "no page has {entry:?}: remove it from tables.rs"
        );
    }
    assert!(all.len() > 100, "only {} commands were found", all.len());
}

/// Each command once that runs, and those that come last.
fn to_run() -> (Vec<Command>, Vec<Command>) {
    let (mut others, mut last): (Vec<Command>, Vec<Command>) = (Vec::new(), Vec::new());
    let all = pages::commands().into_iter();
    let all = all.filter(|command| {
        NOT_RUN
            .iter()
            .all(|(entry, _)| !is_meant(entry, &command.text))
    });
    for command in all {
        let is_last = (&*command.page, &*command.section) == LAST;
        let chosen = if is_last { &mut last } else { &mut others };
        if chosen.iter().all(|earlier| earlier.text != command.text) {
            chosen.push(command);
        }
    }
    others.retain(|command| last.iter().all(|late| late.text != command.text));
    (others, last)
}
