//! Child processes: search path, environment, errors.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};

/// The root of the workspace: that of the cargo that runs us, as the binary may have been built in
/// another one.
pub(crate) fn root() -> &'static Path {
    static XTASK: LazyLock<PathBuf> = LazyLock::new(|| {
        let running = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        running.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into())
    });
    XTASK.parent().unwrap_or(&XTASK)
}

/// Whether this process may install packages, make namespaces and load programs.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The first executable called `program` on the search path.
pub(crate) fn which(program: &str) -> Option<PathBuf> {
    search_path()
        .into_iter()
        .map(|folder| folder.join(program))
        .find(|path| is_executable(path))
}

/// A command in the workspace's root, without the variables that `cargo run` sets for *this*
/// package: build scripts such as ring's watch those variables and would be rerun for nothing.
pub(crate) fn command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.current_dir(root());
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_about_this_package) {
            command.env_remove(name);
        }
    }
    if let Ok(path) = env::join_paths(search_path()) {
        command.env("PATH", path);
    }
    command
}

/// The cargo that runs this program, for the host's crates.
pub(crate) fn cargo() -> Command {
    command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs `command`, its output streaming to ours; an error names the command and its status.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = name(command);
    let status = command
        .status()
        .with_context(|| format!("cannot run {name}"))?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    Ok(())
}

/// Runs `command` and returns its standard output.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let name = name(command);
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        bail!(
            "{name} failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("{name} did not print UTF-8"))
}

/// The exit code of a verb whose checks passed or did not.
pub(crate) fn exit(passed: bool) -> ExitCode {
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The command as a user would type it.
pub(crate) fn name(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Debian keeps bpftool and nft in sbin, which is not on every user's PATH.
fn search_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .collect()
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.mode() & 0o111 != 0)
}

fn is_about_this_package(name: &str) -> bool {
    name.starts_with("CARGO_PKG_")
        || name.starts_with("CARGO_MANIFEST_")
        || matches!(
            name,
            "CARGO" | "CARGO_CRATE_NAME" | "CARGO_BIN_NAME" | "CARGO_PRIMARY_PACKAGE"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_keep_the_users_cargo_settings_but_not_this_packages() {
        assert!(is_about_this_package("CARGO_MANIFEST_DIR"));
        assert!(is_about_this_package("CARGO_PKG_NAME"));
        assert!(!is_about_this_package("CARGO_HOME"));
        assert!(!is_about_this_package("CARGO_TERM_COLOR"));
    }

    #[test]
    fn a_failing_command_is_named_with_its_arguments() {
        let error = run(command("/bin/sh").args(["-c", "exit 3"]))
            .unwrap_err()
            .to_string();
        assert_eq!(error, "sh -c exit 3 failed (exit status: 3)");
    }
}
