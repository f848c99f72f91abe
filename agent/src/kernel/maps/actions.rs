//! CONFIG: the actions for denied packets, as the operator chose them.

use super::{Writer, config::reconfigure};
use crate::shared::choice::Choice;
use anyhow::{Context as _, Result};
use epguard_common::{AnswerLimits, Config, ReasonActions};
use std::path::Path;

impl Writer {
    /// Sets the action for each reason, and how many packets get a reply.
    pub fn choose(&mut self, actions: ReasonActions, limits: AnswerLimits) -> Result<()> {
        self.change_config(|config| {
            Ok(Config {
                actions,
                limits,
                ..config
            })
        })
    }

    /// Sets the interface that captured packets go to.
    ///
    /// Errors: no interface has this name.
    pub fn capture(&mut self, interface: Option<&str>) -> Result<()> {
        let capture = interface.map_or(Ok(0), number)?;
        self.change_config(|config| Ok(Config { capture, ..config }))
    }
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

/// The kernel's number of an interface.
fn number(interface: &str) -> Result<u32> {
    nix::net::if_::if_nametoindex(interface)
        .with_context(|| format!("cannot redirect packets to interface {interface}: see `ip link`"))
}
