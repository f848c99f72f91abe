//! A mutation's file: two comments, then a unified diff.
//!
//! ```text
//! # row: A list that is older than what was seen starts everything over.
//! # test: cargo test -p epguard --test rootless -- --exact state::gaps::a_list_from_the_past_starts_over
//! --- a/agent/src/...
//! ```

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::files::{self, File, list};
use crate::process::root;

/// One fix, reverted.
#[derive(Clone, Debug)]
pub(crate) struct Mutation {
    /// The file's name without `.patch`.
    pub(crate) name: String,
    /// What the fix is for, in one sentence.
    pub(crate) row: String,
    /// Arguments of cargo that run the one test that has to fail.
    pub(crate) test: Vec<String>,
    /// The diff.
    pub(crate) file: PathBuf,
    /// Whether the diff changes sources of the eBPF programs.
    pub(crate) ebpf: bool,
}

/// Every mutation of the repository, by name.
pub(crate) fn all() -> Result<Vec<Mutation>> {
    let mut files = list(&root().join("xtask/mutations"))?;
    files.retain(|file| file.extension().is_some_and(|end| end == "patch"));
    files.iter().map(|file| read(file)).collect()
}

impl Mutation {
    /// The name of the test, as libtest prints it.
    pub(crate) fn test_name(&self) -> &str {
        self.test.last().map_or("", String::as_str)
    }

    /// Whether the test runs only as root.
    pub(crate) fn needs_root(&self) -> bool {
        self.test.iter().any(|word| word == "--ignored")
    }
}

fn read(file: &Path) -> Result<Mutation> {
    let File { name, text } = files::read(file)?;
    parse(file, &text).context(name)
}

fn parse(file: &Path, text: &str) -> Result<Mutation> {
    let header = |key: &str| {
        let mut lines = text.lines().take_while(|line| line.starts_with('#'));
        let line = lines.find_map(|line| line.strip_prefix(key));
        line.map(str::trim)
            .with_context(|| format!("no line `{key} ...` at the top"))
    };
    let command: Vec<String> = header("# test:")?.split_whitespace().map(Into::into).collect();
    let [program, verb, rest @ ..] = command.as_slice() else {
        bail!("`# test:` names no command");
    };
    let exact = rest.iter().any(|word| word == "--exact") && rest.iter().any(|word| word == "--");
    if (program.as_str(), verb.as_str()) != ("cargo", "test")
        || !exact
        || rest.iter().any(|word| word.contains('/'))
    {
        bail!("`# test:` has to be `cargo test -p PACKAGE ... -- [--ignored] --exact NAME`");
    }
    if rest.last().is_none_or(|last| last.starts_with('-')) {
        bail!("`# test:` has to end with the name of the test");
    }
    let changed = |folder: &str| {
        text.lines()
            .any(|line| line.starts_with(&format!("+++ b/{folder}")))
    };
    Ok(Mutation {
        name: file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        row: header("# row:")?.into(),
        test: command[1..].to_vec(),
        file: file.into(),
        ebpf: ["common/", "ebpf/", "lab/neighbour/"].into_iter().any(changed),
    })
}

/// A mutation for tests.
#[cfg(test)]
pub(crate) fn named(name: &str) -> Mutation {
    let text = "# row: R\n# test: cargo test -p epguard --lib -- --exact a::b\n+++ b/common/src/lib.rs\n";
    parse(Path::new(&format!("{name}.patch")), text).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::command;

    #[test]
    fn the_two_comments_and_the_changed_folders_are_read() {
        let mutation = named("row");
        assert_eq!((mutation.name.as_str(), mutation.row.as_str()), ("row", "R"));
        assert_eq!(mutation.test_name(), "a::b");
        assert!(mutation.ebpf && !mutation.needs_root());
    }

    #[test]
    fn a_command_that_does_not_name_one_test_is_refused() {
        for test in [
            "cargo test -p x",
            "sh -c --exact -- a",
            "cargo test -- --exact",
            "cargo test x --exact a",
            "",
        ] {
            let text = format!("# row: R\n# test: {test}\n");
            assert!(parse(Path::new("a.patch"), &text).is_err(), "{test}");
        }
        assert!(parse(Path::new("a.patch"), "# test: cargo test -- --exact a\n").is_err());
    }

    #[test]
    fn every_mutation_still_applies_to_the_sources() {
        for mutation in all().unwrap() {
            let mut git = command("git");
            git.args(["apply", "--check"]).arg(&mutation.file);
            let output = git.output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {error}", mutation.name);
        }
    }

    #[test]
    fn the_assurance_page_lists_every_mutation_with_its_test() {
        let page = files::read(&root().join("docs/assurance.md")).unwrap().text;
        for mutation in all().unwrap() {
            let row = format!("| {} | `{}` |", mutation.row, mutation.test_name());
            assert!(
                page.contains(&row),
                "docs/assurance.md lacks the row: {row} caught |"
            );
        }
    }
}
