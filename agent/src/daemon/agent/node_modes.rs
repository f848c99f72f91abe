//! Applies the mode policy to this node.

use super::Agent;
use anyhow::{Result, bail};
use epguard_common::{Mode, Reason};

impl Agent {
    /// Applies the mode policy if it changed. Does nothing before the sync: only the first list shows if the node is
    /// a canary.
    pub(super) fn follow_fleet(&mut self) -> Result<()> {
        if !self.state.is_synced() {
            return Ok(());
        }
        if let Some(modes) = self.node_modes.take_change(self.state.is_canary()) {
            self.writer.configure(modes.mode, modes.reasons, modes.source.is_config_map())?;
            let source = modes.source.as_str();
            let reasons = self.writer.reasons().into_iter();
            let reasons: Vec<String> = reasons.map(|(reason, mode)| format!("{reason}={mode}")).collect();
            let reasons = reasons.join(",");
            tracing::info!(mode = modes.mode.as_str(), reasons, source, "mode set");
            self.insist_on_hooks()?;
        }
        Ok(())
    }

    /// Errors: the flags or the `ConfigMap` ask for `enforce`, and nothing could be enforced.
    pub(super) fn insist_on_hooks(&self) -> Result<()> {
        if !self.settled || self.node_modes.in_force().mode != Mode::Enforce {
            return Ok(());
        }
        let interfaces = || self.attachments.list();
        // `terminated` needs no record.
        if self.writer.reasons().get(&Reason::Terminated) != Some(&Mode::Enforce) {
            self.translators.require_one(self.attachments.has_socket_lb())?;
        }
        let error = interfaces().find_map(|interface| interface.error.as_deref());
        match error.filter(|_| !interfaces().any(|interface| interface.attached)) {
            Some(first) => bail!("no interface can be hooked, so nothing would be enforced: {first}"),
            None => Ok(()),
        }
    }
}
