//! The work of the thread: hooks of interfaces and of a socket load balancer, and the translators'
//! records.

use super::{NodeEvent, Order, Snapshot, Work};
use crate::daemon::attachments::Attachments;
use crate::daemon::translators::Translators;
use crate::node::netlink::Event;
use anyhow::Result;

/// All that touches the node beside the maps.
pub struct NodeWork {
    attachments: Attachments,
    translators: Translators,
    ticks: u64,
    event: u64,
    settled: bool,
}

impl NodeWork {
    /// Nothing is hooked yet.
    pub const fn new(attachments: Attachments, translators: Translators) -> Self {
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

    fn take(&mut self, NodeEvent { number, event, .. }: NodeEvent) -> Result<()> {
        self.event = number;
        match event {
            Event::Appeared(interface) => self.attachments.appeared(number, &interface),
            Event::Gone { ifindex } => self.attachments.gone(ifindex),
            Event::Defaults(defaults) => self.attachments.set_defaults(defaults)?,
            Event::Recovered => self.attachments.check(),
            Event::Settled => {
                self.attachments.settled()?;
                self.settled = true;
                self.attachments.remove_leftovers();
            }
            // Nothing to hook: the loop has them.
            Event::Lost | Event::Addresses(_) | Event::Routes(_) | Event::Announced(_) => {}
        }
        Ok(())
    }
}

impl Work for NodeWork {
    fn carry_out(&mut self, order: Order) -> Result<()> {
        match order {
            Order::Event(event) => self.take(event)?,
            Order::Redirect(redirects) => self.attachments.redirect(redirects),
            Order::Tick => {
                self.attachments.tick();
                self.translators.follow()?;
                self.attachments.follow_socket_lb()?;
                self.ticks += 1;
            }
            Order::End => {}
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
