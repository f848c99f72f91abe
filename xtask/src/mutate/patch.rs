//! Patches of `xtask/mutations`: two comments, then a diff that reverts one fix.
//!
//! ```text
//! # test: cargo test -p epguard --test kernel -- --ignored --exact programs::elements::a_denial_...
//! # row: a map element that the kernel reuses for another key
//! --- a/ebpf/src/...
//! ```

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::files::{self, list};
use crate::process::root;

/// One fix, reverted.
pub(super) struct Patch {
    /// The diff's file.
    pub(super) file: PathBuf,
    /// The case that the fix is for.
    pub(super) row: String,
    /// The arguments of the `cargo test` whose one test has to fail.
    pub(super) test: Vec<String>,
}

/// Every patch of the repository, by name.
pub(super) fn all() -> Result<Vec<Patch>> {
    let mut files = list(&root().join("xtask/mutations"))?;
    files.retain(|file| file.extension().is_some_and(|end| end == "patch"));
    files.iter().map(|file| Patch::read(file)).collect()
}

impl Patch {
    fn read(file: &Path) -> Result<Self> {
        let contents = files::read(file)?.text;
        let test: Vec<String> = header(&contents, file, "# test: cargo test ")?
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        let [.., exact, _name] = test.as_slice() else {
            bail!("{}: `# test:` names no test", file.display());
        };
        if exact != "--exact" {
            bail!(
                "{}: `# test:` has to end with `--exact NAME`",
                file.display()
            );
        }
        Ok(Self {
            file: file.into(),
            row: header(&contents, file, "# row: ")?.into(),
            test,
        })
    }

    pub(super) fn name(&self) -> String {
        let stem = self.file.file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    }

    /// The name of the test, as libtest prints it.
    pub(super) fn test_name(&self) -> &str {
        self.test.last().map_or("", String::as_str)
    }

    pub(super) fn needs_root(&self) -> bool {
        self.test.iter().any(|word| word == "--ignored")
    }
}

/// The rest of the line that begins with `key`.
fn header<'a>(contents: &'a str, file: &Path, key: &str) -> Result<&'a str> {
    let rest = contents.lines().find_map(|line| line.strip_prefix(key));
    rest.with_context(|| format!("{}: no line `{key}...`", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::command;

    #[test]
    fn every_patch_applies_to_the_sources() {
        for patch in all().unwrap() {
            let output = command("git")
                .args(["apply", "--check"])
                .arg(&patch.file)
                .output()
                .unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {error}", patch.name());
        }
    }
}
