//! Debian packages: installs what is missing, or says in one line why it cannot.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{command, is_root, run, which};

/// Installs `packages` with apt-get, announcing them first. Does nothing for an empty list.
pub(crate) fn install(packages: &[String]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if which("apt-get").is_none() {
        bail!("missing: {list} (Debian's package names); there is no apt-get here, install them by hand");
    }
    if !is_root() {
        bail!("missing: {list}; run `apt-get install {list}` as root, or this command as root");
    }
    println!("setup: installing Debian packages: {list}");
    if lists_are_empty() {
        update()?;
    } else if run(&mut apt_get_install(packages)).is_ok() {
        return Ok(());
    } else {
        println!("setup: that failed; once more with fresh package lists");
        update()?;
    }
    run(&mut apt_get_install(packages)).with_context(|| format!("cannot install {list}"))
}

/// `--no-remove`: another Rust or LLVM that conflicts is the user's to take away, not ours.
fn apt_get_install(packages: &[String]) -> Command {
    let mut install = apt_get();
    install
        .args(["install", "--yes", "--no-remove", "--no-install-recommends"])
        .args(packages);
    install
}

fn update() -> Result<()> {
    println!("setup: apt-get update");
    run(apt_get().arg("update"))
}

fn apt_get() -> Command {
    let mut apt_get = command("apt-get");
    apt_get
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["-o", "DPkg::Lock::Timeout=120"]);
    apt_get.stdin(std::process::Stdio::null());
    apt_get
}

/// Container images come without package lists.
fn lists_are_empty() -> bool {
    let Ok(entries) = fs::read_dir("/var/lib/apt/lists") else {
        return true;
    };
    !entries
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
}
