//! IPs that are in use after all, as the kernel programs noted them.

use super::{Agent, now};
use anyhow::Result;
use epguard_common::Addr;
use epguard_core::facts::{Fact, Presence};
use std::time::Duration;
use tokio::sync;

impl Agent {
    /// A receiver whose value is true while the agent needs the addresses that the node leads to.
    #[must_use]
    pub fn asks_for_presence(&self) -> sync::watch::Receiver<bool> {
        self.ask_for_presence.subscribe()
    }

    /// Applies every IP that the programs saw in use, whether or not the ring buffer had room to report it.
    pub(super) fn apply_lifts(&mut self) -> Result<()> {
        for lift in self.writer.take_lifts()? {
            self.report.lifted(&self.state, &lift);
            self.apply_lift(lift.ip, lift.at);
        }
        for (ip, at) in self.writer.take_sightings() {
            let sighted = Presence::Sighted(ip, at);
            self.state.begin_fact(now(), Fact::Presence(sighted));
        }
        Ok(())
    }

    /// Records that a packet from the IP was seen.
    pub(super) fn apply_lift(&mut self, ip: Addr, at: Duration) {
        let spoke = Presence::Spoke(ip, at);
        self.state.begin_fact(now(), Fact::Presence(spoke));
    }
}
