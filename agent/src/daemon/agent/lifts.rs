//! Who is there after all, as the programs have noted it.

use super::{Agent, now};
use anyhow::Result;
use epguard_common::Addr;
use epguard_core::facts::{Fact, Presence};
use std::time::Duration;
use tokio::sync;

impl Agent {
    /// Whether it matters who is on the node.
    #[must_use]
    pub fn asks_for_presence(&self) -> sync::watch::Receiver<bool> {
        self.ask_for_presence.subscribe()
    }

    /// Hears of everybody who spoke, whether or not the ring had room to say so.
    pub(super) fn hear_lifts(&mut self) -> Result<()> {
        for lift in self.writer.take_lifts()? {
            self.report.lifted(&self.state, &lift);
            self.hear(lift.ip, lift.at);
        }
        for (ip, at) in self.writer.take_sightings() {
            let sighted = Presence::Sighted(ip, at);
            self.state.apply(now(), Fact::Presence(sighted));
        }
        Ok(())
    }

    /// A packet from the IP was seen.
    pub(super) fn hear(&mut self, ip: Addr, at: Duration) {
        let spoke = Presence::Spoke(ip, at);
        self.state.apply(now(), Fact::Presence(spoke));
    }
}
