//! The work of the node's thread: hooks of interfaces and of a socket load balancer, and the
//! translators' records.

use crate::daemon::attachments::Attachments;
use crate::daemon::node_thread::{NodeEvent, NodeOrder, Snapshot, Work};
use crate::daemon::translators::TranslatorFollower;
use crate::node::netlink::NetworkChange;
use anyhow::Result;

/// All that touches the node beside the maps.
pub struct NodeWork {
    attachments: Attachments,
    translators: TranslatorFollower,
    ticks: u64,
    event: u64,
    settled: bool,
}

impl NodeWork {
    /// Nothing is hooked yet.
    pub const fn new(attachments: Attachments, translators: TranslatorFollower) -> Self {
        Self {
            attachments,
            translators,
            ticks: 0,
            event: 0,
            settled: false,
        }
    }

    /// Removes all programs, links and maps of epguard from the kernel.
    pub fn detach(self) -> Result<Vec<String>> {
        self.attachments.detach()
    }

    fn apply_event(&mut self, event: NodeEvent) -> Result<()> {
        self.event = event.number;
        match event.change {
            NetworkChange::Appeared(interface) => {
                self.attachments.appeared(event.number, &interface);
            }
            NetworkChange::Gone { ifindex } => self.attachments.gone(ifindex),
            NetworkChange::Defaults(defaults) => self.attachments.set_defaults(defaults)?,
            NetworkChange::Recovered => self.attachments.check(),
            NetworkChange::Settled => {
                self.attachments.settled()?;
                self.settled = true;
                self.attachments.remove_leftovers();
            }
            // Nothing to hook: the loop has them.
            NetworkChange::Lost
            | NetworkChange::Addresses(_)
            | NetworkChange::Routes(_)
            | NetworkChange::Announced(_) => {}
        }
        Ok(())
    }
}

impl Work for NodeWork {
    fn carry_out(&mut self, order: NodeOrder) -> Result<()> {
        match order {
            NodeOrder::Event(event) => self.apply_event(event)?,
            NodeOrder::Redirect(redirects) => self.attachments.redirect(redirects),
            NodeOrder::Tick => {
                self.attachments.tick();
                self.translators.follow()?;
                self.attachments.follow_socket_lb()?;
                self.ticks += 1;
            }
            NodeOrder::End => {}
        }
        Ok(())
    }

    fn snapshot(&self) -> Snapshot {
        let socket_lb = self.attachments.socket_lb();
        Snapshot {
            ticks: self.ticks,
            event: self.event,
            interfaces: self.attachments.list().collect(),
            entrances: self.attachments.entrances().collect(),
            unanswered: self.attachments.unanswered(),
            settled: self.settled,
            translates_replies: self.settled && self.attachments.translate_replies(),
            hooks_everywhere: self.settled && self.attachments.are_everywhere(),
            translators: self.translators.snapshot(socket_lb.in_force),
            socket_lb,
        }
    }
}
