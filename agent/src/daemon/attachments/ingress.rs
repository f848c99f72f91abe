//! Attaches the ingress hook to all interfaces, or removes it from all.

use super::Attachments;
use std::time::Instant;

impl Attachments {
    /// Flows are redirected from now on, or may be; or no longer.
    pub fn redirect(&mut self, redirects: bool) {
        self.need.redirects = redirects;
        self.follow_need();
    }

    /// Attaches the ingress hooks if something needs them, and removes them ten minutes after
    /// nothing does.
    pub(super) fn follow_need(&mut self) {
        let wanted = self.need.is_there(Instant::now());
        if wanted == self.datapath.wants_ingress() {
            return;
        }
        let redirects = self.need.redirects;
        let socket_lb = self.need.socket_lb;
        tracing::info!(
            wanted,
            redirects,
            socket_lb,
            "ingress hooks of all interfaces"
        );
        self.datapath.want_ingress(wanted);
        self.check();
    }

    /// Whether replies of redirected flows are translated at every selected interface, and go on to
    /// be. One that is left to the CNI for some seconds has no pod yet that serves.
    pub fn translate_replies(&self) -> bool {
        self.need.redirects
            && self
                .interfaces
                .values()
                .all(|at| at.waiting || at.attached && at.ingress)
    }
}
