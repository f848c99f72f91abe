//! CONFIG as it is pinned, for commands beside the agent.

use super::open;
use anyhow::{Context as _, Result};
use aya::maps::{Array, Map, MapData};
use epguard_common::Config;
use std::path::Path;

/// What the running datapath goes by. Errors: none is pinned there.
pub fn configuration(pin_dir: &Path) -> Result<Config> {
    read(&array(pin_dir)?)
}

/// Changes it. Errors: none is pinned there.
pub(super) fn reconfigure(pin_dir: &Path, change: impl FnOnce(Config) -> Result<Config>) -> Result<()> {
    let mut array = array(pin_dir)?;
    let changed = change(read(&array)?)?;
    array.set(0, changed, 0).context("cannot write CONFIG")
}

fn read(array: &Array<MapData, Config>) -> Result<Config> {
    array.get(&0, 0).context("cannot read CONFIG")
}

fn array(pin_dir: &Path) -> Result<Array<MapData, Config>> {
    Ok(Array::try_from(Map::Array(open(pin_dir, "CONFIG")?))?)
}
