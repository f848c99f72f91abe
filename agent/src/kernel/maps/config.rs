//! CONFIG as it is pinned, and the actions for denied packets in it.

use super::lock::{ConfigLock, LockGuard};
use super::{Writer, open};
use crate::shared::choice::Choice;
use anyhow::{Context as _, Result};
use aya::maps::{Array, Map, MapData};
use epguard_common::{AnswerLimits, Config, RawConfig, ReasonActions};
use std::path::Path;

/// Reads the configuration of the running datapath. Errors: none is pinned there.
pub fn configuration(pin_dir: &Path) -> Result<Config> {
    read(&array(pin_dir)?)
}

/// Switches the action of the running datapath.
pub fn set_action(pin_dir: &Path, choice: &Choice) -> Result<()> {
    reconfigure(pin_dir, |config| {
        Ok(Config {
            actions: choice.applied_to(config.actions),
            capture: choice.capture.as_deref().map_or(Ok(config.capture), number)?,
            ..config
        })
    })
}

/// Changes the pinned CONFIG under its lock. Errors: none is pinned there, or another process holds its lock.
pub(super) fn reconfigure(pin_dir: &Path, change: impl FnOnce(Config) -> Result<Config>) -> Result<()> {
    let mut array = array(pin_dir)?;
    let lock = ConfigLock::at(pin_dir)?;
    let _held = lock.hold()?;
    let changed = change(read(&array)?)?;
    array.set(0, RawConfig::from(changed), 0).context("cannot write CONFIG")
}

impl Writer {
    /// Makes each later change of CONFIG take the lock that commands beside the agent take too.
    ///
    /// Errors: no maps are pinned there.
    pub fn lock_config(mut self, pin_dir: &Path) -> Result<Self> {
        self.config_lock = Some(ConfigLock::at(pin_dir)?);
        Ok(self)
    }

    /// Sets the action for each reason, and how many packets get a reply.
    pub fn choose(&mut self, actions: ReasonActions, limits: AnswerLimits) -> Result<()> {
        self.change_config(|config| Ok(Config { actions, limits, ..config }))
    }

    /// Sets the interface that captured packets go to.
    ///
    /// Errors: no interface has this name.
    pub fn capture(&mut self, interface: Option<&str>) -> Result<()> {
        let capture = interface.map_or(Ok(0), number)?;
        self.change_config(|config| Ok(Config { capture, ..config }))
    }

    /// Sets whether the programs log.
    pub fn debug(&mut self, debug: bool) -> Result<()> {
        let debug = debug.into();
        self.change_config(|config| Ok(Config { debug, ..config }))
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
        self.config.set(0, RawConfig::from(changed), 0).context("cannot write CONFIG")
    }
}

fn read(array: &Array<MapData, RawConfig>) -> Result<Config> {
    let raw = array.get(&0, 0).context("cannot read CONFIG")?;
    Ok(raw.checked())
}

fn array(pin_dir: &Path) -> Result<Array<MapData, RawConfig>> {
    Ok(Array::try_from(Map::Array(open(pin_dir, "CONFIG")?))?)
}

/// The kernel's number of an interface.
fn number(interface: &str) -> Result<u32> {
    nix::net::if_::if_nametoindex(interface)
        .with_context(|| format!("cannot redirect packets to interface {interface}: see `ip link`"))
}
