//! The archive of a bug report: its folder, its name and its parts.

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder in an archive.
pub const FOLDER: &str = "epguard-sysdump";

/// Adds a file to the folder of an archive.
pub fn add_part(to: &mut tar::Builder<impl Write>, name: &Path, content: &[u8]) -> Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    to.append_data(&mut header, Path::new(FOLDER).join(name), content)
        .with_context(|| format!("cannot write {} to the archive", name.display()))
}

/// The archive's default name: `epguard-sysdump-NODE-TIME.tar`, without NODE for an archive of all
/// nodes.
pub fn default_path(node: Option<&str>) -> PathBuf {
    let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let node = node.map(|node| format!("{node}-")).unwrap_or_default();
    format!("epguard-sysdump-{node}{time}.tar").into()
}

/// A part of the archive as JSON that people read, too.
pub fn pretty_json<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(value).context("cannot write JSON")
}
