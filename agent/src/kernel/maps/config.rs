//! CONFIG as it is pinned, for commands beside the agent.

use super::lock::{ConfigLock, LockGuard};
use super::{Writer, open};
use anyhow::{Context as _, Result};
use aya::maps::{Array, Map, MapData};
use epguard_common::{Config, RawConfig};
use std::path::Path;

/// Reads the configuration of the running datapath. Errors: none is pinned there.
pub fn configuration(pin_dir: &Path) -> Result<Config> {
    read(&array(pin_dir)?)
}

/// Changes the pinned CONFIG under its lock. Errors: none is pinned there, or another process holds its lock.
pub(super) fn reconfigure(pin_dir: &Path, change: impl FnOnce(Config) -> Result<Config>) -> Result<()> {
    let mut array = array(pin_dir)?;
    let lock = ConfigLock::at(pin_dir)?;
    let _held = lock.hold()?;
    let changed = change(read(&array)?)?;
    array
        .set(0, RawConfig::from(changed), 0)
        .context("cannot write CONFIG")
}

impl Writer {
    /// Makes each later change of CONFIG take the lock that commands beside the agent take too.
    ///
    /// Errors: no maps are pinned there.
    pub fn lock_config(mut self, pin_dir: &Path) -> Result<Self> {
        self.config_lock = Some(ConfigLock::at(pin_dir)?);
        Ok(self)
    }

    pub(super) fn config(&self) -> Result<Config> {
        read(&self.config)
    }

    /// Changes CONFIG under its lock. If another process keeps the lock, the change is made nevertheless: it may be the
    /// one that ends a wrong denial.
    pub(super) fn change_config(&mut self, change: impl FnOnce(Config) -> Result<Config>) -> Result<()> {
        let held = self.config_lock.as_ref().map(ConfigLock::hold).transpose();
        let _held: Option<LockGuard<'_>> = held.unwrap_or_else(|error| {
            tracing::warn!("CONFIG is changed without its lock: {error:#}");
            None
        });
        let changed = change(read(&self.config)?)?;
        self.config
            .set(0, RawConfig::from(changed), 0)
            .context("cannot write CONFIG")
    }
}

fn read(array: &Array<MapData, RawConfig>) -> Result<Config> {
    let raw = array.get(&0, 0).context("cannot read CONFIG")?;
    Ok(raw.checked())
}

fn array(pin_dir: &Path) -> Result<Array<MapData, RawConfig>> {
    Ok(Array::try_from(Map::Array(open(pin_dir, "CONFIG")?))?)
}
