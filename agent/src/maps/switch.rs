//! What the operator switches: CONFIG, at run time.

use super::{Writer, open};
use crate::cli::{ActionArgs, Choice};
use anyhow::{Context as _, Result};
use aya::maps::{Array, Map};
use epguard_common::{Config, Mode};
use std::path::Path;

impl Writer {
    /// Sets how denials are carried out, and how many packets are answered.
    pub fn choose(&mut self, args: &ActionArgs) -> Result<()> {
        let config = Config {
            actions: args.actions(),
            limits: args.limits(),
            capture: args.capture().map_or(Ok(0), number)?,
            ..self.config.get(&0, 0).context("cannot read CONFIG")?
        };
        self.config.set(0, config, 0).context("cannot write CONFIG")
    }
}

/// Switches the running datapath.
pub fn set_mode(pin_dir: &Path, mode: Mode) -> Result<()> {
    let mut array: Array<_, Config> = Array::try_from(Map::Array(open(pin_dir, "CONFIG")?))?;
    let config = array.get(&0, 0).context("cannot read CONFIG")?;
    array
        .set(
            0,
            Config {
                mode,
                reasons: config.configured,
                ..config
            },
            0,
        )
        .context("cannot write CONFIG")
}

/// Switches how the running datapath stops packets.
pub fn set_action(pin_dir: &Path, choice: &Choice) -> Result<()> {
    let mut array: Array<_, Config> = Array::try_from(Map::Array(open(pin_dir, "CONFIG")?))?;
    let config = array.get(&0, 0).context("cannot read CONFIG")?;
    let changed = Config {
        actions: choice.applied_to(config.actions),
        capture: choice.capture.as_deref().map_or(Ok(config.capture), number)?,
        ..config
    };
    array.set(0, changed, 0).context("cannot write CONFIG")
}

/// The kernel's number of an interface.
fn number(interface: &str) -> Result<u32> {
    nix::net::if_::if_nametoindex(interface)
        .with_context(|| format!("cannot redirect packets to interface {interface}: see `ip link`"))
}
