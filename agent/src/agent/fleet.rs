//! What the fleet wants of this node.

use super::Agent;
use anyhow::Result;

impl Agent {
    /// Carries out what the fleet wants, if that has changed. Whether the node is a canary shows with the first list.
    pub(super) fn follow_fleet(&mut self) -> Result<()> {
        if !self.state.is_synced() {
            return Ok(());
        }
        if let Some(modes) = self.fleet.take_change(self.state.is_canary()) {
            self.writer.follow(modes.mode, modes.reasons)?;
            let source = modes.source.as_str();
            tracing::info!(mode = modes.mode.as_str(), reasons = ?self.writer.reasons(), source, "mode set");
        }
        Ok(())
    }
}
