//! What the operator switches: CONFIG, at run time.

use super::{Writer, open};
use crate::cli::Choice;
use anyhow::{Context as _, Result};
use aya::maps::{Array, Map};
use epguard_common::{AnswerLimits, Config, Mode, ReasonActions};
use std::path::Path;

impl Writer {
    /// Sets how denials are carried out, and how many packets are answered.
    pub fn choose(&mut self, actions: ReasonActions, limits: AnswerLimits) -> Result<()> {
        let config = Config {
            actions,
            limits,
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
pub fn set_action(pin_dir: &Path, choice: Choice) -> Result<()> {
    let mut array: Array<_, Config> = Array::try_from(Map::Array(open(pin_dir, "CONFIG")?))?;
    let config = array.get(&0, 0).context("cannot read CONFIG")?;
    let actions = choice.applied_to(config.actions);
    array
        .set(0, Config { actions, ..config }, 0)
        .context("cannot write CONFIG")
}
