//! Commands in the pages: their verbs, flags, manifests, keys and maps exist.
//!
//! Nothing runs here. `lab/tests/cluster/commands` runs the commands of the README and of docs/.

mod keys;
mod programs;
mod shell;

use super::all;
use super::markdown::{Block, Parts, parts};
use crate::files::File;

/// First words of indented blocks that show output, with the command.
const OUTPUT: [(&str, &str); 1] = [("VERDICT", "what `epguard why` prints")];
/// Pages whose indented blocks are drawings.
const DRAWINGS: [&str; 1] = ["ARCHITECTURE.md"];

#[test]
fn every_command_that_the_pages_show_exists() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for page in all().unwrap() {
        for command in commands(&page) {
            checked += 1;
            let result = programs::check(&command);
            wrong.extend(result.err().map(|why| format!("{}: {}: {why}", page.name, command.join(" "))));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked > 100, "only {checked} commands were found");
}

#[test]
fn every_flag_annotation_and_pinned_map_that_the_pages_name_exists() {
    let mut wrong = Vec::new();
    for page in all().unwrap() {
        let spans = parts(&page.text).spans;
        let flags = spans.iter().filter(|span| span.starts_with("--"));
        let flags = flags.map(|flag| programs::flag(flag));
        let pins = spans.iter().map(|span| keys::pinned(span));
        let results = flags.chain(pins).chain([keys::annotations(&page.text)]);
        wrong.extend(results.filter_map(Result::err).map(|why| format!("{}: {why}", page.name)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn unknown_commands_flags_and_maps_are_refused() {
    for command in [
        "epguard statsu",
        "epguard drops --folow",
        "epguard mode --reason stale observe",
        "epguard drops [-f] [--shop x]",
        "kubectl epguard statsu",
        "kubectl epguard drops [-f] [--nodes x]",
        "kubectl apply -k deploy/overlays/none",
        "kubectl -n elsewhere get pods",
        "kubectl -n epguard exec ds/epguard -- epguard lnt",
        "kubectl -n epguard exec ds/agent -- epguard lint",
        "kubectl create configmap epguard --from-literal=modes=observe",
        "kubectl patch configmap epguard -p '{\"data\": {\"modus\": \"off\"}}'",
        "kubectl patch daemonset epguard -p '[{\"value\": \"--detach\"}]'",
        "cargo xtask demos",
        "cargo xtask image --verified",
        "cargo xtask scenario lab/scenarios/none.yaml",
        "cargo test --test none",
        "bpftool map dump pinned /sys/fs/bpf/epguard/v3/NONE",
        "bpftool map dump pinned /sys/fs/bpf/epguard/v2/DENIED",
        "epguard status -o json | jq .problems[].remedies",
        "stranger --x",
    ] {
        let commands = shell::commands(command);
        let refused = commands.iter().any(|words| programs::check(words).is_err());
        assert!(refused, "{command}");
    }
    for flag in ["--statsu", "--events some", "--events none|some"] {
        assert!(programs::flag(flag).is_err(), "{flag}");
    }
    assert!(keys::annotations("`epguard.io/mood: off`").is_err());
}

/// The commands in a page's blocks, and code spans of two words or more whose first command is one of a known program.
fn commands(page: &File) -> Vec<Vec<String>> {
    let Parts { blocks, spans, .. } = parts(&page.text);
    let blocks = blocks.iter().filter(|block| is_shell(block));
    let blocks = blocks.filter(|_| !DRAWINGS.contains(&&*page.name));
    let in_blocks = blocks.flat_map(|block| shell::commands(&block.text));
    let in_spans = spans.iter().map(|span| shell::commands(span));
    let in_spans = in_spans.filter(|commands| match commands.first().map(Vec::as_slice) {
        Some([program, _, ..]) => programs::is_program(program),
        _ => false,
    });
    in_blocks.chain(in_spans.flatten()).collect()
}

fn is_shell(block: &Block) -> bool {
    let first = block.text.split_whitespace().next().unwrap_or_default();
    let language = block.language.as_deref();
    language.is_none_or(|language| ["", "sh", "bash", "shell", "console"].contains(&language))
        && OUTPUT.iter().all(|(word, _)| *word != first)
}
