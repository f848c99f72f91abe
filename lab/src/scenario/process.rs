//! Runs a program to its end.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Runs a program that must succeed, and returns its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    let cause = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{name} failed: {}",
        cause.trim().replace('\n', "; ")
    );
    String::from_utf8(output.stdout).with_context(|| format!("{name} wrote no UTF-8"))
}

/// The agent's binary: in the folder of this one, or the path in `EPGUARD`.
pub fn epguard() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("EPGUARD") {
        return Ok(path.into());
    }
    let own = std::env::current_exe().context("cannot find this program's path")?;
    let folders = own.ancestors().skip(1).take(2);
    let found = folders
        .map(|folder| folder.join("epguard"))
        .find(|path| path.is_file());
    found.with_context(|| {
        format!(
            "there is no epguard beside {}: run `cargo xtask build`",
            own.display()
        )
    })
}
