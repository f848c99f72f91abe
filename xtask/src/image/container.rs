//! The demo with the agent in a container: runc starts it from the image, with a read-only root,
//! namespaces of its own for everything but the network, and the capabilities of
//! `deploy/epguard.yaml`. The lab around it stays outside.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::buildah;
use crate::build;
use crate::lab::lab;
use crate::packages;
use crate::process::{command, read, run as run_command};
use crate::setup;

/// Plays the demo.
pub(super) fn demo(target: &Path, archive: &Path) -> Result<()> {
    packages::install_missing(&[("runc", "runc")])?;
    setup::programs()?;
    build::host()?;
    let source = format!("oci-archive:{}", archive.display());
    let container = buildah(&["from", &source])?;
    let container = container.trim();
    let rootfs = buildah(&["mount", container])?;
    let bundle = target.join("bundle");
    let program = prepare(&bundle, rootfs.trim())?;
    let played = run_command(lab("demo").env("EPGUARD", program));
    // The lab kills runc, which leaves the container for inspection.
    let mut runc = command("runc");
    runc.arg("--root").arg(bundle.join("state"));
    let deleted = read(runc.args(["delete", "--force", "epguard-demo"]));
    buildah(&["rm", container])?;
    played.and(deleted.map(drop))
}

/// Writes the bundle that runc needs. Returns the program to start as the agent.
fn prepare(bundle: &Path, rootfs: &str) -> Result<std::path::PathBuf> {
    fs::create_dir_all(bundle.join("state")).context("cannot make the container's bundle")?;
    // The lab mounts its bpffs below it.
    fs::create_dir_all("/run/epguard-lab").context("cannot make /run/epguard-lab")?;
    for folder in ["proc", "sys", "dev", "run/epguard-lab"] {
        fs::create_dir_all(Path::new(rootfs).join(folder))
            .context("cannot make a place to mount at")?;
    }
    fs::write(bundle.join("template.json"), include_str!("config.json"))?;
    let script = include_str!("epguard.sh")
        .replace("@BUNDLE@", &bundle.display().to_string())
        .replace("@ROOT@", rootfs);
    let program = bundle.join("epguard");
    fs::write(&program, script)?;
    fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    Ok(program)
}
