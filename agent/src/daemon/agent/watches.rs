//! The state of each watch, and the reaction if one of them lost its history.

use super::Agent;
use crate::shared::clock::boot as now;
use crate::shared::status::Watch;
use epguard_core::facts::Watched;
use epguard_core::facts::named;

impl Agent {
    pub(super) fn connected(&mut self, id: Watched, error: Option<String>) {
        let up = error.is_none();
        self.lease.view.connected(id, up);
        let watch = self.watch(id);
        watch.restarts += u64::from(watch.up && !up);
        (watch.up, watch.error) = (up, error);
    }

    /// The watch lacks changes that the API server has shown elsewhere, such as a new owner of a denied IP.
    pub(super) fn behind(&mut self, id: Watched) {
        tracing::warn!(watch = %id, "the watch lacks changes that the API server has shown; nothing is denied until it has caught up");
        self.lease.view.void_watch(id, now());
    }

    /// Starts over, because nothing known holds any more. Asks the other watches to list again: only once, and not
    /// before they have all listed.
    pub(super) fn start_over(&mut self, noticed_by: Watched, error: &str) {
        tracing::error!(watch = %noticed_by, error, "nothing is denied until everything is listed again");
        self.lease.view.void(now());
        if self.state.is_listed() {
            self.state.start_over(now());
            for id in self.watches.keys().filter(|id| **id != noticed_by) {
                self.api.relist(*id, self.state.spread());
            }
        }
    }

    /// Lists everything anew if the API has shown a dead pod as alive.
    pub(super) fn relist_if_revived(&mut self) {
        let Some(pod) = self.state.take_revived() else {
            return;
        };
        tracing::error!(
            pod = named(&pod),
            "the API shows a dead pod alive, as after a restore of etcd; nothing is denied until everything is listed again"
        );
        self.lease.view.void(now());
        for id in self.watches.keys() {
            self.api.relist(*id, self.state.spread());
        }
    }

    /// True if the agent has denials, so that it needs the lease.
    pub(super) fn denies(&self) -> bool {
        let tables = self.state.tables();
        let mut orphan_ip = tables.terminated.values();
        !tables.denied.is_empty()
            || self.writer.has_redirected_flows()
            || orphan_ip.any(|orphan_ip| orphan_ip.lifted.is_none())
    }

    pub(super) fn watch(&mut self, id: Watched) -> &mut Watch {
        self.watches.entry(id).or_default()
    }
}
