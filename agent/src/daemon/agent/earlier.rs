//! Enters sockets that were connected before their Service had a denial.

use super::Agent;
use crate::node::sock_diag::{Connected, Listed};
use crate::shared::clock::{boot as now, boot_ns};
use anyhow::{Result, ensure};
use epguard_common::{Slot, Vip};
use std::collections::{BTreeMap, BTreeSet};

/// A lookup that waits for a list.
#[derive(Debug)]
pub(super) struct Lookup {
    /// The addresses, and their slots when it began.
    vips: BTreeMap<Vip, Slot>,
    /// Since when sockets were followed without a gap when it began.
    since_ns: u64,
    /// When its first list was asked for.
    looked_ns: u64,
    /// The sockets of the first list that were noted; none before it came.
    noted: Option<Vec<Connected>>,
}

impl Agent {
    /// Looks for connected sockets of the Services that are new in SERVICES, unless a lookup is under way: its end looks again.
    pub(super) fn enter_earlier_sockets(&mut self) -> Result<()> {
        let services = self.writer.services();
        self.earlier.forget_gone(services);
        let follows = self.writer.follows_since_ns();
        let Some(since_ns) = follows.filter(|_| self.lookup.is_none()) else {
            return Ok(());
        };
        let due = self.earlier.due(services, since_ns, now());
        if due.is_empty() {
            return Ok(());
        }
        let slots = due
            .into_iter()
            .filter_map(|vip| Some((vip, *services.get(&vip)?)));
        self.list_sockets(Lookup {
            vips: slots.collect(),
            since_ns,
            looked_ns: boot_ns(),
            noted: None,
        })
    }

    fn list_sockets(&mut self, lookup: Lookup) -> Result<()> {
        let vips = lookup.vips.keys().copied().collect();
        self.lookup = Some(lookup);
        let asked = self.lister.ask(vips);
        ensure!(
            asked,
            "the thread that lists sockets has ended: restart the agent"
        );
        Ok(())
    }

    /// Applies a list of sockets. A lookup whose first list shows none needs no second one.
    ///
    /// A kernel that lists no sockets is no error: these sockets are missed, and `status` shows that.
    pub fn on_sockets(&mut self, listed: Listed) -> Result<()> {
        let Some(mut lookup) = self.lookup.take() else {
            return Ok(());
        };
        if self.writer.follows_since_ns() != Some(lookup.since_ns) {
            return self.enter_earlier_sockets();
        }
        match (lookup.noted.take(), listed) {
            (None, Ok(found)) if found.is_empty() => {}
            (None, Ok(found)) => {
                lookup.noted = Some(self.note_sockets(found)?);
                return self.list_sockets(lookup);
            }
            (None, Err(error)) => {
                tracing::warn!(%error, "the kernel does not list sockets (it needs inet_diag, tcp_diag and udp_diag): \
                    connections of the node's own processes that are older than a denial pass");
            }
            (Some(noted), listed) => self.enter(&noted, &listed.unwrap_or_default(), lookup.looked_ns)?,
        }
        self.earlier.done(&lookup.vips, now());
        self.enter_earlier_sockets()
    }

    fn note_sockets(&mut self, found: Vec<Connected>) -> Result<Vec<Connected>> {
        let cgroups: BTreeSet<u64> = found.iter().filter_map(|socket| socket.cgroup).collect();
        let followed = self.attachments.follows(&cgroups);
        let admitted = self.earlier.admit(found, &followed);
        for socket in &admitted {
            self.writer.note_socket(socket.cookie)?;
        }
        Ok(admitted)
    }

    fn enter(&mut self, first: &[Connected], second: &[Connected], looked_ns: u64) -> Result<()> {
        let steps = self.earlier.compare(first, second, self.writer.services());
        for (socket, slot) in &steps.enter {
            self.writer.aim_socket(socket, *slot, looked_ns)?;
        }
        for cookie in &steps.forget {
            self.writer.drop_socket(*cookie)?;
        }
        Ok(())
    }
}
