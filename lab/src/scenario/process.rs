//! Running a program to its end.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Standard output of a program that has to succeed.
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

/// The agent's binary: beside this one, or what `EPGUARD` says.
pub fn epguard() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("EPGUARD") {
        return Ok(path.into());
    }
    let own = std::env::current_exe().context("cannot tell where this program is")?;
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
