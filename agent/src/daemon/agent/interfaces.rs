//! Events of netlink about the node's interfaces, addresses and neighbours.

use super::{Agent, now};
use crate::node::netlink::Event as LinkEvent;
use anyhow::Result;
use epguard_core::facts::{Fact, Presence};

impl Agent {
    /// Applies an event of netlink: hooks new interfaces, and drops deleted ones.
    pub fn on_interface(&mut self, event: LinkEvent) -> Result<()> {
        match event {
            LinkEvent::Appeared(interface) => self.attachments.appeared(&interface),
            LinkEvent::Gone { ifindex } => self.attachments.gone(ifindex),
            LinkEvent::Defaults(defaults) => self.attachments.set_defaults(defaults)?,
            LinkEvent::Lost => self.attachments.lost(),
            LinkEvent::Recovered => self.attachments.recovered(),
            LinkEvent::Addresses(addresses) => {
                self.state.begin_fact(now(), Fact::LocalAddresses(addresses));
                self.write()?;
            }
            LinkEvent::Held(ips) => {
                let presence = ips.map_or(Presence::Unknown, Presence::Held);
                self.state.begin_fact(now(), Fact::Presence(presence));
                self.write()?;
            }
            LinkEvent::Announced(ips) => {
                self.state.begin_fact(now(), Fact::Presence(Presence::Announced(ips)));
            }
            LinkEvent::Looked(at) => self.state.begin_fact(now(), Fact::Presence(Presence::Looked(at))),
            LinkEvent::Settled => {
                self.show_roles();
                let attachments = &self.attachments;
                self.writer.retain_roles(|ifindex| attachments.known_role(ifindex).is_some());
                self.attachments.settled()?;
                self.settled = true;
                self.insist_on_hooks()?;
            }
        }
        self.show_roles();
        Ok(())
    }

    pub(super) fn show_roles(&mut self) {
        for (ifindex, role) in self.attachments.changed_roles() {
            match self.writer.set_role(ifindex, role) {
                Ok(()) => self.attachments.note_role(ifindex, role),
                Err(error) => tracing::warn!(
                    ifindex,
                    error = format!("{error:#}"),
                    "a role is tried again: Cilium's records and `terminated` need it"
                ),
            }
        }
    }
}
