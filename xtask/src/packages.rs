//! Debian packages: installs missing ones, or prints in one line why it cannot.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{command, is_root, root, run, which};

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

/// Takes one program out of a package, into `target/tools/bin`, without installing the package: some start a service.
pub(crate) fn extract(package: &str, program: &str) -> Result<()> {
    let tools = root().join("target/tools");
    let name = Path::new(program).file_name().context("a program has a name")?;
    let to = tools.join("bin").join(name);
    if to.exists() {
        return Ok(());
    }
    if which("apt-get").is_none() {
        bail!(
            "missing: {}; there is no apt-get here, put it into {}",
            name.display(),
            to.display()
        );
    }
    println!(
        "setup: taking {} out of Debian's package {package}",
        name.display()
    );
    let unpacked = tools.join(package);
    fs::create_dir_all(&unpacked).with_context(|| format!("cannot make {}", unpacked.display()))?;
    if lists_are_empty() {
        update()?;
    }
    run(apt_get().args(["download", package]).current_dir(&unpacked))?;
    let archive = fs::read_dir(&unpacked)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|end| end == "deb"))
        .with_context(|| format!("apt-get download {package} left nothing"))?;
    run(command("dpkg-deb").arg("--extract").arg(archive).arg(&unpacked))?;
    fs::create_dir_all(tools.join("bin"))?;
    fs::rename(unpacked.join(program), &to).with_context(|| format!("{package} has no {program}"))?;
    fs::remove_dir_all(&unpacked).with_context(|| format!("cannot remove {}", unpacked.display()))
}

/// `--no-remove`: a conflicting Rust or LLVM is the user's, and only the user may remove it.
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

/// True in container images, which come without package lists.
fn lists_are_empty() -> bool {
    let Ok(entries) = fs::read_dir("/var/lib/apt/lists") else {
        return true;
    };
    !entries
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
}
