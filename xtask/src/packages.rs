//! Debian packages: installs missing ones, or prints in one line why it cannot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::files::{list, remove_folder};
use crate::process::{command, is_root, run, which};
use crate::tools;

/// Installs the package of each program that is not on the search path.
pub(crate) fn install_missing(programs: &[(&str, &str)]) -> Result<()> {
    let missing = programs
        .iter()
        .filter(|(program, _)| which(program).is_none());
    install(&missing.map(|(_, package)| *package).collect::<Vec<_>>())
}

/// Installs `packages` with apt-get, announcing them first. Does nothing for an empty list.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if which("apt-get").is_none() {
        bail!(
            "missing: {list} (Debian's package names); there is no apt-get here, install them by hand"
        );
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

/// Takes programs out of a package, into `target/tools/bin`, without installing the package: some
/// start a service.
pub(crate) fn extract(package: &str, programs: &[&str]) -> Result<()> {
    let tools = tools::folder();
    let bin = tools.join("bin");
    let place = |program: &str| bin.join(Path::new(program).file_name().unwrap_or_default());
    if programs.iter().all(|program| place(program).exists()) {
        return Ok(());
    }
    let names = programs.join(" and ");
    if which("apt-get").is_none() {
        bail!(
            "missing: {names}; there is no apt-get here, put them into {}",
            bin.display()
        );
    }
    println!("setup: taking {names} out of Debian's package {package}");
    let unpacked = tools.join(package);
    // An interrupted setup leaves half a package.
    remove_folder(&unpacked)?;
    unpack(&download(package, &unpacked)?, &unpacked)?;
    fs::create_dir_all(&bin)?;
    for program in programs {
        fs::rename(unpacked.join(program), place(program))
            .with_context(|| format!("{package} has no {program}"))?;
    }
    remove_folder(&unpacked)
}

/// Downloads a package into a folder, unless it is there. Returns its file.
pub(crate) fn download(package: &str, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    if let Some(file) = find_downloaded(package, folder)? {
        return Ok(file);
    }
    println!("setup: downloading Debian's {package}");
    if lists_are_empty() {
        update()?;
    }
    run(apt_get().args(["download", package]).current_dir(folder))?;
    find_downloaded(package, folder)?
        .with_context(|| format!("apt-get download {package} left nothing"))
}

fn find_downloaded(package: &str, folder: &Path) -> Result<Option<PathBuf>> {
    Ok(list(folder)?.into_iter().find(|path| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(&format!("{package}_")) && file.ends_with(".deb")
    }))
}

/// Unpacks packages of any architecture and all that they need into a folder, unless it is there.
/// Installs nothing.
pub(crate) fn unpack_all(arch: Arch, packages: &[&str], folder: &Path) -> Result<()> {
    if folder.exists() {
        return Ok(());
    }
    install_missing(&[("mmdebstrap", "mmdebstrap")])?;
    let release = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    let suite = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .context("/etc/os-release names no release of Debian")?;
    let part = folder.with_extension("part");
    // An interrupted run leaves half of it.
    remove_folder(&part)?;
    fs::create_dir_all(&part).with_context(|| format!("cannot make {}", part.display()))?;
    println!(
        "setup: unpacking for {}: {}",
        arch.name(),
        packages.join(" ")
    );
    let mut mmdebstrap = command("mmdebstrap");
    mmdebstrap.args(["--quiet", "--mode=root", "--variant=extract"]);
    mmdebstrap.arg(format!("--architectures={}", arch.name()));
    mmdebstrap
        .arg(format!("--include={}", packages.join(",")))
        .arg(suite)
        .arg(&part);
    run(&mut mmdebstrap)?;
    fs::rename(&part, folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Writes a package's contents into a folder.
pub(crate) fn unpack(package: &Path, folder: &Path) -> Result<()> {
    run(command("dpkg-deb")
        .arg("--extract")
        .arg(package)
        .arg(folder))
}

/// `--no-remove`: a conflicting Rust or LLVM is the user's, and only the user may remove it.
fn apt_get_install(packages: &[&str]) -> Command {
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
    let lists = list(Path::new("/var/lib/apt/lists")).unwrap_or_default();
    !lists
        .iter()
        .any(|file| file.to_string_lossy().contains("_Packages"))
}
