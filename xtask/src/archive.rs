//! Archives with nothing of this machine in them: owners, times, order.

use std::path::Path;

use anyhow::Result;

use crate::process::{command, run};

/// Packs `contents` of a folder, with tar's options among them, compressed unless the archive is a
/// plain `.tar`.
pub(crate) fn pack(folder: &Path, contents: &[&str], archive: &Path) -> Result<()> {
    let mut tar = command("tar");
    tar.args([
        "--create",
        "--sort=name",
        "--mtime=@0",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
    ]);
    tar.arg("--mode=u=rwX,go=rX");
    if archive.extension().is_some_and(|end| end != "tar") {
        tar.arg("--use-compress-program=gzip --no-name");
    }
    run(tar
        .arg("--file")
        .arg(archive)
        .arg("--directory")
        .arg(folder)
        .args(contents))
}
