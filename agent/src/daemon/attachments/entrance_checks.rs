//! Looks at what is at the ingress of interfaces, where packets in the name of an endpoint may
//! enter: hooked ones, and bridges.

use super::Attachments;
use crate::shared::status::Unanswered;

impl Attachments {
    /// Interfaces that need another look before the regular one: hooked ones, and bridges.
    pub(super) fn unseen(&self) -> impl Iterator<Item = u32> {
        self.hooked()
            .chain(self.bridges())
            .filter(|ifindex| self.entrances.is_due(*ifindex))
    }

    /// The interfaces with our hooks.
    fn hooked(&self) -> impl Iterator<Item = u32> {
        let hooked = self.interfaces.values().filter(|at| at.attached);
        hooked.map(|at| at.ifindex)
    }

    /// The bridges without hooks.
    pub(super) fn bridges(&self) -> impl Iterator<Item = u32> {
        self.roles
            .bridges()
            .filter(|ifindex| !self.interfaces.contains_key(ifindex))
    }

    /// Looks at the ingress of a bridge, which has no hooks of ours. An interface that is gone is
    /// dropped soon.
    pub(super) fn look_at_bridge(&mut self, ifindex: u32) {
        if let Ok(others) = self.datapath.others_at_ingress(ifindex) {
            self.entrances.record_look(ifindex, others);
        }
    }

    /// The interfaces at which packets may enter in the name of an endpoint, each with the number
    /// of the event that announced it.
    pub fn entrances(&self) -> impl Iterator<Item = (u32, u64)> {
        let events = self
            .events
            .iter()
            .map(|(ifindex, event)| (*ifindex, *event));
        events.filter(|(ifindex, _)| self.entrances.is_free(*ifindex))
    }

    /// Where nothing may enter in the name of an endpoint, for the status.
    pub fn unanswered(&self) -> Vec<Unanswered> {
        let mut unanswered = Vec::new();
        for ifindex in self.hooked().chain(self.bridges()) {
            if let Some(name) = self.roles.name(ifindex)
                && let Some(why) = self.entrances.why_not(ifindex)
            {
                unanswered.push(Unanswered {
                    interface: name.to_owned(),
                    why,
                });
            }
        }
        unanswered
    }
}
