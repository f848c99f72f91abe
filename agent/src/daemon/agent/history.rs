//! The recorded history, for `epguard why`.

use super::{Agent, now};
use crate::shared::clock::Clocks;
use crate::shared::status::Status;
use epguard_common::{Addr, Mode};
use epguard_core::history::Chronicle;
use std::net::IpAddr;
use std::time::Duration;

impl Agent {
    /// Records what changed. Runs after the maps are written: no verdict waits for its record.
    pub fn record_history(&mut self) {
        let rv = self.watches.values().map(|watch| watch.rv).max().unwrap_or(0);
        self.history.note(now(), rv, &mut self.state);
    }

    /// A status with only the history of one IP, and what `epguard why` explains beside it.
    pub(super) fn history_of(&self, ip: IpAddr) -> Status {
        let clocks = Clocks::now();
        let mode = self.writer.mode().map_or("unknown", Mode::as_str);
        // Without a denial the lease is not renewed, and none is needed.
        let mode = if self.lease.deadline() > clocks.boot || !self.denies() {
            mode.to_owned()
        } else {
            format!("{mode} without a lease (everything passes)")
        };
        let ip = Addr::from(ip);
        let chronicle = Chronicle {
            now_ms: u64::try_from(clocks.boot.as_millis()).unwrap_or(u64::MAX),
            wall_ms: milliseconds(clocks.real),
            mode,
            ..self.history.of(ip, self.state.view(ip))
        };
        Status {
            history: Some(Box::new(chronicle)),
            translators: self.translators.shown(self.attachments.has_socket_lb()),
            ..Status::default()
        }
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
