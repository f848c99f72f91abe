//! CONFIG as it is pinned, for commands beside the agent.

use super::open;
use anyhow::{Context as _, Result};
use aya::maps::{Array, Map, MapData};
use epguard_common::Config;
use std::path::Path;

/// What the running datapath goes by. Errors: none is pinned there.
pub fn configuration(pin_dir: &Path) -> Result<Config> {
    array(pin_dir)?.get(&0, 0).context("cannot read CONFIG")
}

/// Changes it. Errors: none is pinned there.
pub(super) fn reconfigure(pin_dir: &Path, change: impl FnOnce(Config) -> Result<Config>) -> Result<()> {
    let changed = change(configuration(pin_dir)?)?;
    array(pin_dir)?.set(0, changed, 0).context("cannot write CONFIG")
}

fn array(pin_dir: &Path) -> Result<Array<MapData, Config>> {
    Ok(Array::try_from(Map::Array(open(pin_dir, "CONFIG")?))?)
}
