//! The check of each program's command lines.

use std::fs;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use epguard::cli::Cli;
use epguard::fleet::Plugin;

use super::keys;
use super::shell::variants;
use crate::Verb;
use crate::process::root;

/// Programs whose command lines are not checked, and why.
const UNCHECKED: [(&str, &str); 15] = [
    ("bpftool", "not epguard's; paths of pinned maps are checked"),
    ("conntrack", "not epguard's"),
    ("ctr", "needs containerd"),
    ("ethtool", "not epguard's"),
    ("grep", "not epguard's"),
    ("install", "not epguard's"),
    ("ip", "not epguard's"),
    ("jq", "not epguard's; the names of fields are checked"),
    ("k3s", "needs k3s"),
    ("kind", "needs kind"),
    ("ln", "not epguard's"),
    ("lslocks", "not epguard's"),
    ("ls", "not epguard's"),
    ("sysctl", "not epguard's"),
    ("tc", "not epguard's"),
];

/// Flags of other programs that the pages name alone.
const FOREIGN_FLAGS: [(&str, &str); 2] =
    [("--watch-progress-notify-interval", "etcd"), ("--locked", "cargo")];

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

/// The namespace of the Services and pods that the pages take as examples.
const EXAMPLE: &str = "shop";

/// Whether a code span that begins with this word is a command.
pub(super) fn is_program(word: &str) -> bool {
    ["epguard", "kubectl", "cargo"].contains(&word) || UNCHECKED.iter().any(|(name, _)| *name == word)
}

/// Checks a command; one of ours with its options, and without those in square brackets.
pub(super) fn check(words: &[String]) -> Result<(), String> {
    let ours = |program: &String| program == "epguard" || program == "cargo";
    let plugin = words.starts_with(&owned(&["kubectl", "epguard"]));
    if plugin || words.first().is_some_and(ours) {
        variants(words).iter().try_for_each(|words| one(words))
    } else {
        one(words)
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn one(words: &[String]) -> Result<(), String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["epguard", "..."] | ["kubectl", "epguard"] | ["kubectl", "epguard", "..."] | ["cargo", "xtask"] => {
            Ok(())
        }
        ["kubectl", "epguard", rest @ ..] => plugin(rest),
        ["epguard", rest @ ..] => epguard(rest),
        ["cargo", "xtask", rest @ ..] => xtask(rest),
        ["cargo", rest @ ..] => cargo(rest),
        ["kubectl", rest @ ..] => kubectl(rest),
        ["taskset", "-c", _, rest @ ..] => check(&owned(rest)),
        ["bpftool" | "ls", rest @ ..] => rest.iter().try_for_each(|word| keys::pinned(word)),
        ["jq", rest @ ..] => rest.iter().try_for_each(|word| keys::fields(word)),
        [other, ..] if is_program(other) => Ok(()),
        _ => Err("no check knows this program: add it to UNCHECKED with the reason".into()),
    }
}

/// Parses with the agent's own definition. A verb alone is its name: required arguments may be left out.
fn epguard(arguments: &[&str]) -> Result<(), String> {
    let mut given: Vec<String> = vec!["epguard".into()];
    given.extend(arguments.iter().map(|word| filled_in(word)));
    if given.get(1).is_some_and(|verb| verb == "agent") {
        // The manifests set it through the environment.
        given.extend(["--node-name".into(), "node-a".into()]);
    }
    match Cli::try_parse_from(&given) {
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument && given.len() == 2 => Ok(()),
        result => parsed(result.map(drop)),
    }
}

/// Parses with the plugin's own definition.
fn plugin(arguments: &[&str]) -> Result<(), String> {
    let mut given: Vec<String> = vec!["kubectl epguard".into()];
    given.extend(arguments.iter().map(|word| filled_in(word)));
    match Plugin::try_parse_from(&given) {
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument && given.len() == 2 => Ok(()),
        result => parsed(result.map(drop)),
    }
}

fn xtask(arguments: &[&str]) -> Result<(), String> {
    let mut given: Vec<String> = vec!["cargo xtask".into()];
    given.extend(arguments.iter().map(|word| filled_in(word)));
    parsed(Verb::try_parse_from(&given).map(drop))?;
    let mut files = given.iter().filter(|word| word.starts_with("lab/"));
    files.try_for_each(|file| exists(file))
}

fn parsed(result: Result<(), clap::Error>) -> Result<(), String> {
    match result {
        Err(error) if error.kind() != ErrorKind::DisplayHelp => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn filled_in(word: &str) -> String {
    let mut word = word.to_owned();
    for (placeholder, value) in PLACEHOLDERS {
        word = word.replace(placeholder, value);
    }
    word
}

/// The package and the test binary exist.
fn cargo(arguments: &[&str]) -> Result<(), String> {
    let values = arguments.windows(2).filter(|pair| pair[0] == "--test");
    for test in values.map(|pair| pair[1]) {
        let files = ["agent", "lab", "xtask"].map(|room| format!("{room}/tests/{test}"));
        if !files.iter().any(|file| root().join(file).is_dir() || root().join(format!("{file}.rs")).is_file())
        {
            return Err(format!("there is no test binary {test}"));
        }
    }
    let known = ["test", "build", "clippy", "install"];
    arguments
        .first()
        .filter(|verb| known.contains(verb))
        .map(drop)
        .ok_or_else(|| "no such verb of cargo".into())
}

/// Manifests, objects and keys exist; a command that runs in the pod is checked as its own command.
fn kubectl(arguments: &[&str]) -> Result<(), String> {
    if let Some(at) = arguments.iter().position(|word| *word == "--") {
        check(&owned(&arguments[at + 1..]))?;
    }
    for pair in arguments.windows(2) {
        match pair[0] {
            "-k" => exists(&format!("{}/kustomization.yaml", pair[1]))?,
            "-f" => exists(pair[1])?,
            "-n" if pair[1] != EXAMPLE => manifest("Namespace", pair[1])?,
            "configmap" => keys::config_map(pair[1])?,
            "-p" => keys::patch(pair[1])?,
            _ => {}
        }
    }
    for word in arguments {
        if let Some(key) = word.strip_prefix("--from-literal=") {
            keys::config_map_key(key.split('=').next().unwrap_or_default())?;
        }
        if let Some(name) = word.strip_prefix("daemonset/").or(word.strip_prefix("ds/")) {
            manifest("DaemonSet", name)?;
        }
    }
    Ok(())
}

/// `deploy/base` holds an object of this kind and name.
fn manifest(kind: &str, name: &str) -> Result<(), String> {
    let file = match kind {
        "Namespace" => "deploy/base/namespace.yaml",
        _ => "deploy/base/daemonset.yaml",
    };
    let text = fs::read_to_string(root().join(file)).unwrap();
    let holds = text.contains(&format!("kind: {kind}\n")) && text.contains(&format!("  name: {name}\n"));
    holds.then_some(()).ok_or_else(|| format!("{file} has no {kind} {name}"))
}

fn exists(path: &str) -> Result<(), String> {
    let found = root().join(path).exists();
    found.then_some(()).ok_or_else(|| format!("there is no {path}"))
}

/// A flag that a page names alone, with or without a value: at least one verb accepts it.
pub(super) fn flag(text: &str) -> Result<(), String> {
    let (name, value) = text.split_once([' ', '=']).map_or((text, None), |(name, value)| (name, Some(value)));
    if FOREIGN_FLAGS.iter().any(|(flag, _)| *flag == name) || is_xtasks(name) || is_plugins(name) {
        return Ok(());
    }
    let commands = Cli::command();
    let verbs = commands.get_subcommands().filter(|verb| takes(verb, name));
    let mut refused = format!("no verb has {name}");
    for verb in verbs {
        let values = value.filter(|value| !value.contains("...")).into_iter();
        let attempts = values.flat_map(|value| value.split('|'));
        let mut attempts = attempts.map(|value| attempt(verb.get_name(), &[name, value]));
        match attempts.find_map(Result::err) {
            None => return Ok(()),
            Some(error) => refused = error,
        }
    }
    Err(refused)
}

/// A verb may need arguments beside the flag.
fn attempt(verb: &str, arguments: &[&str]) -> Result<(), String> {
    let arguments: Vec<&str> = [verb].into_iter().chain(arguments.iter().copied()).collect();
    epguard(&arguments).or_else(|error| {
        if error.contains("required arguments were not provided") { Ok(()) } else { Err(error) }
    })
}

fn is_xtasks(flag: &str) -> bool {
    Verb::command().get_subcommands().any(|verb| takes(verb, flag))
}

/// Its value is checked where a page shows a whole command.
fn is_plugins(flag: &str) -> bool {
    let plugin = Plugin::command();
    takes(&plugin, flag) || plugin.get_subcommands().any(|verb| takes(verb, flag))
}

fn takes(verb: &clap::Command, flag: &str) -> bool {
    let long = |arg: &clap::Arg| arg.get_long().is_some_and(|long| flag.strip_prefix("--") == Some(long));
    verb.get_arguments().any(long)
}
