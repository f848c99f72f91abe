//! The integration tests that need root, in groups. Each module of a test binary is a group and
//! runs as a process of its own: a group stays within a step's time limit, and several run at a
//! time.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::files::list;
use crate::process::root;

/// Tests that run as one step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    /// The integration test binary, a folder. One name stands for those of all packages.
    pub(super) binary: String,
    /// The module in it.
    pub(super) module: String,
}

/// Every group of the workspace.
pub(super) fn all() -> Result<BTreeSet<Group>> {
    let mut groups = BTreeSet::new();
    for package in PACKAGES {
        for folder in list(&root().join(package).join("tests"))? {
            let main = folder.join("main.rs");
            ensure!(
                main.exists() && !needs_root(&main),
                "{} is no test binary whose root tests are in modules",
                folder.display()
            );
            let modules = list(&folder)?
                .into_iter()
                .filter(|module| needs_root(module));
            groups.extend(modules.map(|path| Group {
                binary: stem(&folder),
                module: stem(&path),
            }));
        }
    }
    Ok(groups)
}

const PACKAGES: [&str; 3] = ["lab", "agent", "xtask"];

fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Whether the file or folder `path` has tests that run only with `--ignored`.
fn needs_root(path: &Path) -> bool {
    if path.is_dir() {
        return list(path).is_ok_and(|files| files.iter().any(|file| needs_root(file)));
    }
    fs::read_to_string(path).is_ok_and(|source| {
        source
            .lines()
            .any(|line| line.trim().starts_with("#[ignore"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files and folders of a test binary, at any depth, except those of the module `but`.
    fn modules(folder: &Path, but: &str) -> Vec<String> {
        let paths = list(folder).unwrap_or_default().into_iter();
        let others = paths.filter(|path| stem(path) != but);
        others
            .flat_map(|path| [vec![stem(&path)], modules(&path, "")].concat())
            .collect()
    }

    #[test]
    fn a_group_runs_no_test_of_another_group() {
        for group in all().unwrap() {
            for package in PACKAGES {
                let folder = root().join(package).join("tests").join(&group.binary);
                let mut alike = modules(&folder, &group.module);
                alike.retain(|other| other.ends_with(&group.module));
                assert!(alike.is_empty(), "{group:?} selects tests of {alike:?}");
            }
        }
    }

    #[test]
    fn each_group_has_a_heading_of_its_own_and_the_longest_are_groups() {
        let groups = all().unwrap();
        let titles: BTreeSet<String> = groups
            .iter()
            .map(|group| format!("root: {}", group.module))
            .collect();
        assert_eq!(titles.len(), groups.len(), "{groups:?}");
        assert!(
            super::super::LONGEST
                .iter()
                .all(|long| titles.contains(*long)),
            "{titles:?}"
        );
    }
}
