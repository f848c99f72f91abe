//! The integration tests that need root, in groups. Each module of a test binary is a group and runs as a process of its own:
//! a group stays within a step's time limit, and several run at a time.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::files::list;
use crate::process::root;

/// Tests that run as one step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    /// The integration test binary. One name stands for those of all packages.
    binary: String,
    /// The module in it; none: the whole binary.
    module: Option<String>,
}

impl Group {
    /// The step's heading.
    pub(super) fn title(&self) -> String {
        format!("root: {}", self.module.as_ref().unwrap_or(&self.binary))
    }

    /// Arguments of `cargo test` before `--`. The name of the module selects its tests, and no other group's of the binary.
    pub(super) fn which(&self) -> Vec<String> {
        let filter = self.module.as_ref().map(|module| format!("{module}::"));
        let binary = ["--test".into(), self.binary.clone()];
        binary.into_iter().chain(filter).collect()
    }
}

/// Every group of the workspace.
pub(super) fn all() -> Result<BTreeSet<Group>> {
    let mut groups = BTreeSet::new();
    for package in ["lab", "agent", "xtask"] {
        let tests = list(&root().join(package).join("tests"))?;
        ensure!(!tests.is_empty(), "{package}/tests has nothing to run");
        for path in tests {
            groups.extend(of_binary(&path)?);
        }
    }
    Ok(groups)
}

/// The groups of `tests/BINARY.rs` or `tests/BINARY/main.rs`; none for a folder that is no binary.
fn of_binary(path: &Path) -> Result<Vec<Group>> {
    let group = |module| Group { binary: stem(path), module };
    let main = path.join("main.rs");
    if path.extension().is_some_and(|end| end == "rs") || needs_root(&main) {
        return Ok(Vec::from_iter(needs_root(path).then(|| group(None))));
    }
    if !main.exists() {
        return Ok(Vec::new());
    }
    let modules = list(path)?.into_iter();
    let modules = modules.filter(|module| needs_root(module));
    Ok(modules.map(|module| group(Some(stem(&module)))).collect())
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether the file or folder `path` has tests that run only with `--ignored`.
fn needs_root(path: &Path) -> bool {
    if path.is_dir() {
        return list(path).is_ok_and(|files| files.iter().any(|file| needs_root(file)));
    }
    fs::read_to_string(path)
        .is_ok_and(|source| source.lines().any(|line| line.trim().starts_with("#[ignore")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files and folders of a test binary, at any depth, except those of the module `but`.
    fn modules(folder: &Path, but: &str) -> Vec<String> {
        let paths = list(folder).unwrap_or_default().into_iter();
        let others = paths.filter(|path| stem(path) != but);
        others.flat_map(|path| [vec![stem(&path)], modules(&path, "")].concat()).collect()
    }

    #[test]
    fn a_group_runs_no_test_of_another_group() {
        for group in all().unwrap() {
            let Some(module) = &group.module else { continue };
            for package in ["lab", "agent", "xtask"] {
                let folder = root().join(package).join("tests").join(&group.binary);
                let alike: Vec<String> = modules(&folder, module)
                    .into_iter()
                    .filter(|other| other.ends_with(module.as_str()))
                    .collect();
                assert!(alike.is_empty(), "{}: `{module}::` selects tests of {alike:?}", group.binary);
            }
        }
    }

    #[test]
    fn each_group_has_a_heading_of_its_own_and_the_longest_are_groups() {
        let groups = all().unwrap();
        let titles: BTreeSet<String> = groups.iter().map(Group::title).collect();
        assert_eq!(titles.len(), groups.len(), "{groups:?}");
        for long in super::super::LONGEST {
            assert!(titles.contains(long), "{long}");
        }
    }
}
