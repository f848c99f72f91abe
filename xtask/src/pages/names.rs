//! Commands, flags, annotations and maps that the pages name exist.
//!
//! Nothing runs here. `lab/tests/cluster/commands` runs every command of the README and of docs/,
//! those of other programs too.

use std::sync::LazyLock;

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use epguard::cli::Cli;
use kubectl_epguard::Plugin;

use super::all;
use super::markdown::{parts, variants};
use crate::Verb;
use crate::files::read_all;
use crate::process::root;

/// The text of each file that reads or writes names of the user interface.
static SOURCES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let rooms = [
        "agent/src",
        "agent/client",
        "agent/core",
        "agent/plugin",
        "common/src",
        "ebpf/src",
    ]
    .into_iter()
    .filter(|room| root().join(room).exists());
    let files = rooms.flat_map(|room| read_all(room, "rs").unwrap());
    files.map(|file| file.text).collect()
});

/// Flags of other programs that the pages name alone.
const FOREIGN_FLAGS: [(&str, &str); 4] = [
    ("--watch-progress-notify-interval", "etcd"),
    ("--locked", "cargo"),
    ("--force-conflicts", "helm"),
    ("--skip-tests", "helm"),
];

/// Placeholders in the pages, and values for them.
const PLACEHOLDERS: [(&str, &str); 9] = [
    ("VERB", "setup"),
    ("NAMESPACE/NAME", "shop/web"),
    ("REASON=MODE", "reused=observe"),
    ("REASON", "reused"),
    ("CIDR", "10.0.0.0/8"),
    ("IP:PORT", "10.0.0.1:80"),
    ("IP", "10.0.0.1"),
    ("FILE", "lab/scenarios"),
    ("...", ""),
];

#[test]
fn every_command_that_the_pages_show_exists() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for page in all().unwrap() {
        for line in parts(&page.text)
            .lines
            .iter()
            .map(|line| &*line.text)
            .filter(|line| is_ours(line))
        {
            checked += 1;
            wrong.extend(
                command(line)
                    .err()
                    .map(|why| format!("{}: {line}: {why}", page.name)),
            );
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
        let flags = spans
            .iter()
            .filter(|span| span.starts_with("--"))
            .map(|text| flag(text));
        let pins = spans.iter().map(|span| pinned(span));
        let results = flags.chain(pins).chain([annotations(&page.text)]);
        wrong.extend(
            results
                .filter_map(Result::err)
                .map(|why| format!("{}: {why}", page.name)),
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn unknown_commands_flags_and_maps_are_refused() {
    for line in [
        "epguard statsu",
        "epguard drops --folow",
        "epguard mode --reason stale observe",
        "epguard drops [-f] [--shop x]",
        "kubectl epguard statsu",
        "kubectl epguard drops [-f] [--nodes x]",
        "cargo xtask demos",
        "cargo xtask image --verified",
        "cargo xtask scenario lab/scenarios/none.yaml",
    ] {
        assert!(is_ours(line) && command(line).is_err(), "{line}");
    }
    for text in ["--statsu", "--events some", "--events none|some"] {
        assert!(flag(text).is_err(), "{text}");
    }
    assert!(annotations("`epguard.io/mood: off`").is_err());
    for path in ["v3/NONE", "v2/DENIED"] {
        assert!(
            pinned(&format!("/sys/fs/bpf/epguard/{path}")).is_err(),
            "{path}"
        );
    }
}

/// A command line of ours. A name alone, or with `...`, stands for all of its commands.
fn is_ours(line: &str) -> bool {
    let verb = ["epguard ", "kubectl epguard ", "cargo xtask "]
        .iter()
        .find_map(|name| line.strip_prefix(name));
    verb.is_some_and(|verb| !verb.starts_with("..."))
}

/// Parses a command with its program's own definition, with and without the options in square
/// brackets. What a shell would do with its output is left out. A verb alone is its name: required
/// arguments may be left out.
fn command(line: &str) -> Result<(), String> {
    let line = line
        .split([';', '>'])
        .next()
        .unwrap_or_default()
        .split(" | ")
        .next()
        .unwrap_or_default();
    variants(line).iter().try_for_each(|variant| {
        let words: Vec<String> = variant.split_whitespace().map(filled_in).collect();
        match words
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .as_slice()
        {
            ["cargo", "xtask", rest @ ..] => {
                parsed::<Verb>("cargo xtask", rest)?;
                let missing = rest
                    .iter()
                    .find(|word| word.starts_with("lab/") && !root().join(word).exists());
                missing.map_or(Ok(()), |file| Err(format!("there is no {file}")))
            }
            ["kubectl", "epguard", rest @ ..] => parsed::<Plugin>("kubectl epguard", rest),
            // The manifests set the name through the environment.
            ["epguard", "agent", rest @ ..] => parsed::<Cli>(
                "epguard",
                &[&["agent", "--node-name=node-a"], rest].concat(),
            ),
            words => parsed::<Cli>("epguard", &words[1..]),
        }
    })
}

fn parsed<T: clap::Parser>(program: &str, arguments: &[&str]) -> Result<(), String> {
    match T::try_parse_from([program].iter().chain(arguments)) {
        Err(error) if error.kind() == ErrorKind::DisplayHelp => Ok(()),
        Err(error)
            if error.kind() == ErrorKind::MissingRequiredArgument && arguments.len() == 1 =>
        {
            Ok(())
        }
        result => result.map(drop).map_err(|error| error.to_string()),
    }
}

fn filled_in(word: &str) -> String {
    let mut filled = word.replace(['\'', '"'], "");
    for (placeholder, value) in PLACEHOLDERS {
        filled = filled.replace(placeholder, value);
    }
    filled
}

/// A flag that a page names alone, with or without a value: at least one verb accepts it. The
/// plugin's and xtask's values are checked where a page shows a whole command.
fn flag(text: &str) -> Result<(), String> {
    let (name, value) = text
        .split_once([' ', '='])
        .map_or((text, None), |(name, value)| (name, Some(value)));
    let takes = |verb: &clap::Command| {
        let mut longs = verb.get_arguments().filter_map(clap::Arg::get_long);
        longs.any(|long| name.strip_prefix("--") == Some(long))
    };
    let others = [Verb::command(), Plugin::command()];
    let is_others = others
        .iter()
        .any(|other| takes(other) || other.get_subcommands().any(takes));
    if is_others || FOREIGN_FLAGS.iter().any(|(flag, _)| *flag == name) {
        return Ok(());
    }
    let cli = Cli::command();
    let mut refused = format!("no verb has {name}");
    for verb in cli.get_subcommands().filter(|verb| takes(verb)) {
        let values = value.filter(|value| !value.contains("...")).into_iter();
        // A verb may need arguments beside the flag.
        match values
            .flat_map(|value| value.split('|'))
            .find_map(|value: &str| {
                let line = format!("epguard {} {name} {value}", verb.get_name());
                command(&line)
                    .err()
                    .filter(|error| !error.contains("required arguments were not provided"))
            }) {
            None => return Ok(()),
            Some(error) => refused = error,
        }
    }
    Err(refused)
}

/// Each `epguard.io/KEY` in a page is an annotation or label that the code reads.
fn annotations(page: &str) -> Result<(), String> {
    let mut keys = page.split("epguard.io/").skip(1).filter_map(|rest| {
        rest.split(|c: char| !(c.is_ascii_lowercase() || c == '-'))
            .next()
    });
    keys.try_for_each(|key| {
        in_sources(
            &format!("\"epguard.io/{key}\""),
            &format!("epguard.io/{key}"),
        )
    })
}

/// A path below the pins: the version of the layout, a map in it, or the list of qdiscs.
fn pinned(path: &str) -> Result<(), String> {
    let Some(rest) = path
        .strip_prefix("/sys/fs/bpf/epguard/")
        .filter(|rest| *rest != "clsact")
    else {
        return Ok(());
    };
    let (layout, map) = rest.split_once('/').unwrap_or((rest, ""));
    let current = format!("v{}", epguard_common::ABI_VERSION);
    if layout != current {
        return Err(format!("the layout of the maps is {current}, not {layout}"));
    }
    if map.is_empty() || map.starts_with("links/") {
        return Ok(());
    }
    in_sources(&format!("static {map}:"), &format!("map {map}"))
}

fn in_sources(text: &str, what: &str) -> Result<(), String> {
    let is_there = SOURCES.iter().any(|file| file.contains(text));
    is_there
        .then_some(())
        .ok_or_else(|| format!("the code knows no {what}"))
}
