//! Pinned maps as `bpftool map dump` shows them to anybody.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::process;

/// Entries with `key` and `value` by field names.
pub fn entries(pin_dir: &Path, map: &str) -> Result<Vec<Value>> {
    let text = process::output(
        Command::new("bpftool")
            .args(["-j", "map", "dump", "pinned"])
            .arg(path(pin_dir, map)),
    )?;
    let entries: Vec<Value> = serde_json::from_str(&text).context("bpftool wrote no JSON array")?;
    Ok(entries
        .into_iter()
        .map(|entry| entry.get("formatted").cloned().unwrap_or(entry))
        .collect())
}

/// Where a map is pinned.
pub fn path(pin_dir: &Path, map: &str) -> std::path::PathBuf {
    epguard::maps::directory(pin_dir).join(map)
}
