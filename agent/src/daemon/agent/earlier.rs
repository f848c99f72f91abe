//! Enters sockets that were connected before their Service had a denial.

use super::Agent;
use crate::node::sock_diag;
use crate::shared::clock::{boot as now, boot_ns};
use anyhow::Result;
use epguard_common::Vip;
use std::collections::BTreeSet;

impl Agent {
    /// Enters connected sockets of the Services that are new in SERVICES. If it finds none, it costs two lists of
    /// sockets.
    ///
    /// A kernel that lists no sockets is no error: these sockets are missed, and `status` shows that.
    pub(super) fn enter_earlier_sockets(&mut self) -> Result<()> {
        let Some(since_ns) = self.writer.follows_since_ns() else {
            return Ok(());
        };
        let due = self.earlier.due(self.writer.services(), since_ns, now());
        if due.is_empty() {
            return Ok(());
        }
        let looked_ns = boot_ns();
        match sock_diag::connected_to(&due) {
            Ok(found) if found.is_empty() => {}
            Ok(found) => self.enter(&due, found, looked_ns)?,
            Err(error) => {
                tracing::warn!(%error, "the kernel does not list sockets (it needs inet_diag, tcp_diag and udp_diag): \
                    connections of the node's own processes that are older than a denial pass");
            }
        }
        self.earlier.done(&due, self.writer.services(), now());
        Ok(())
    }

    fn enter(&mut self, due: &[Vip], found: Vec<sock_diag::Connected>, looked_ns: u64) -> Result<()> {
        let cgroups: BTreeSet<u64> = found.iter().filter_map(|socket| socket.cgroup).collect();
        let followed = self.attachments.follows(&cgroups);
        let first = self.earlier.admit(found, &followed);
        for socket in &first {
            self.writer.note_socket(socket.cookie)?;
        }
        let second = sock_diag::connected_to(due).unwrap_or_default();
        let steps = self.earlier.compare(&first, &second, self.writer.services());
        for (socket, slot) in &steps.enter {
            self.writer.aim_socket(socket, *slot, looked_ns)?;
        }
        for cookie in &steps.forget {
            self.writer.drop_socket(*cookie)?;
        }
        Ok(())
    }
}
