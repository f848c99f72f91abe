//! Completion as kubectl asks for it: `kubectl_complete-epguard` runs `kubectl-epguard __complete -- WORD...`.
//!
//! The last word is the one to complete. The answer has a candidate a line, then `:` and a number, as Go's cobra prints
//! it: 4 means that file names do not fit.

mod names;

use super::output;
use anyhow::Result;
use clap::{Arg, Args, Command};

const NO_FILES: u32 = 4;
const FILES: u32 = 0;

/// Options of the hidden verb.
#[derive(Debug, Args)]
pub struct CompleteArgs {
    /// The words after `kubectl epguard`
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    pub words: Vec<String>,
}

/// Prints candidates for the words of a command. Errors: the output fails.
pub async fn run(args: &CompleteArgs, mut plugin: Command) -> Result<()> {
    plugin.build();
    let (mut candidates, mut directive) = complete(&plugin, &args.words);
    if let Some(names) = names::names(&args.words).await {
        (candidates, directive) = (names, NO_FILES);
    }
    for (name, help) in candidates {
        let gap = if help.is_empty() { "" } else { "\t" };
        output::line(&format!("{name}{gap}{help}"))?;
    }
    output::line(&format!(":{directive}"))
}

type Candidates = Vec<(String, String)>;

/// Candidates for the last word, with what it means, and the number at the end.
fn complete(plugin: &Command, words: &[String]) -> (Candidates, u32) {
    let (word, before) = words
        .split_last()
        .map_or(("", &[][..]), |(last, rest)| (last.as_str(), rest));
    let verb = before
        .iter()
        .find_map(|word| plugin.find_subcommand(word).filter(|verb| !verb.is_hide_set()));
    let command = verb.unwrap_or(plugin);
    let flag = before.last().and_then(|word| flag(command, word));
    let mut candidates = if let Some(flag) = flag {
        values(flag)
    } else if word.starts_with('-') {
        flags(command)
    } else if verb.is_none() {
        verbs(plugin)
    } else {
        command.get_positionals().flat_map(values).collect()
    };
    let any = flag.is_some() && candidates.is_empty();
    candidates.retain(|(name, _)| name.starts_with(word));
    (candidates, if any { FILES } else { NO_FILES })
}

/// The flag that a word names, if it takes a value.
fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let mut with_value = command
        .get_arguments()
        .filter(|arg| arg.get_action().takes_values());
    with_value.find(|arg| {
        let long = arg.get_long().map(|long| format!("--{long}"));
        let short = arg.get_short().map(|short| format!("-{short}"));
        [long, short].iter().flatten().any(|name| name == word)
    })
}

fn values(arg: &Arg) -> Candidates {
    let values = arg.get_possible_values().into_iter();
    values
        .map(|value| (value.get_name().to_owned(), help(value.get_help())))
        .collect()
}

fn flags(command: &Command) -> Candidates {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let named = shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), help(arg.get_help()))));
    named.collect()
}

fn verbs(plugin: &Command) -> Candidates {
    let shown = plugin.get_subcommands().filter(|verb| !verb.is_hide_set());
    shown
        .map(|verb| (verb.get_name().to_owned(), help(verb.get_about())))
        .collect()
}

/// The first line of a help.
fn help(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    enum Program {
        /// Does it
        ///
        /// In detail.
        Run {
            #[arg(short, long, value_parser = ["table", "json"])]
            output: String,
            #[arg(long)]
            file: String,
            #[arg(long)]
            quickly: bool,
            #[arg(value_parser = ["fast", "slow"])]
            how: String,
        },
        #[command(hide = true)]
        Rest,
    }

    fn names(words: &[&str]) -> (String, u32) {
        let mut program = <Program as clap::CommandFactory>::command();
        program.build();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let (candidates, directive) = complete(&program, &words);
        let names: Vec<String> = candidates
            .into_iter()
            .map(|(name, help)| format!("{name}={help}"))
            .collect();
        (names.join(" "), directive)
    }

    #[test]
    fn verbs_flags_and_values_are_completed_and_hidden_ones_are_not() {
        for (words, expected, directive) in [
            (&["r"][..], "run=Does it", NO_FILES),
            (&["run", "--q"], "--quickly=", NO_FILES),
            (&["run", "-o", "j"], "json=", NO_FILES),
            (&["run", "--output", ""], "table= json=", NO_FILES),
            (&["run", "--quickly", "f"], "fast=", NO_FILES),
            (&["run", "--file", ""], "", FILES),
        ] {
            assert_eq!(names(words), (expected.to_owned(), directive), "{words:?}");
        }
    }
}
