//! `cargo xtask workflows`: GitHub's workflows by their schema and by zizmor, forms and dependabot's
//! settings by their schema, and shell scripts by shellcheck.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::files;
use crate::packages;
use crate::process::{command, read, root, run as run_command};
use crate::python;

/// zizmor and check-jsonschema. `requirements.in` beside this file shows how it is written.
const REQUIREMENTS: &str = include_str!("../lint/requirements.txt");

/// Schemas that check-jsonschema contains, with the folder of the files that each is for.
const SCHEMAS: [(&str, &str); 4] = [
    ("vendor.github-workflows", ".github/workflows"),
    (
        "custom.github-workflows-require-timeout",
        ".github/workflows",
    ),
    ("vendor.dependabot", ".github"),
    ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE"),
];

/// What begins a script for a shell.
const SHELL: &str = "^#!/(usr/bin/env bash|bin/sh)";

/// Checks them all.
pub(crate) fn run() -> Result<ExitCode> {
    let programs = python::environment("lint", REQUIREMENTS)?;
    packages::install_missing(&[("shellcheck", "shellcheck")])?;
    for (schema, folder) in SCHEMAS {
        let mut check = command(programs.join("check-jsonschema"));
        check.args(["--builtin-schema", schema]);
        run_command(check.args(yaml_in(folder)?))?;
    }
    let mut zizmor = command(programs.join("zizmor"));
    zizmor.args(["--offline", "--strict-collection", "--no-progress"]);
    run_command(zizmor.args(["--persona", "pedantic", "."]))?;
    run_command(
        command("shellcheck")
            .arg("--external-sources")
            .args(scripts()?),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The YAML files in a folder, from the repository's root.
fn yaml_in(folder: &str) -> Result<Vec<String>> {
    let paths = files::list(&root().join(folder))?;
    let names = paths.iter().filter_map(|path| path.file_name()?.to_str());
    let yaml = names.filter(|name| Path::new(name).extension().is_some_and(|end| end == "yaml"));
    let found: Vec<String> = yaml.map(|name| format!("{folder}/{name}")).collect();
    ensure!(!found.is_empty(), "{folder} has no file .yaml");
    Ok(found)
}

/// The scripts of the repository, by their first line.
fn scripts() -> Result<Vec<String>> {
    let mut grep = command("git");
    grep.args(["grep", "--untracked", "--files-with-matches", "-E", SHELL]);
    Ok(read(&mut grep)?.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_of_ci_and_of_tests_in_clusters_are_found_and_no_others() {
        let scripts = scripts().unwrap();
        for script in [".ci/run", "e2e/run"] {
            assert!(scripts.contains(&script.to_owned()), "{scripts:?}");
        }
        assert!(!scripts.contains(&"README.md".to_owned()), "{scripts:?}");
    }

    #[test]
    fn a_schema_without_a_file_to_check_is_an_error() {
        for (_, folder) in SCHEMAS {
            assert!(!yaml_in(folder).unwrap().is_empty());
        }
        assert!(yaml_in("xtask/src").is_err());
    }
}
