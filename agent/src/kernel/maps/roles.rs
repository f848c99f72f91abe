//! INTERFACES: the role of each interface on the node.

use super::{Writer, absent};
use anyhow::{Context as _, Result};
use epguard_common::{RawRole, Role};

impl Writer {
    /// Sets the role of an interface; `None` if it is gone. Packets that lead to an interface without a role pass.
    ///
    /// Errors: a map cannot be written.
    pub fn set_role(&mut self, ifindex: u32, role: Option<Role>) -> Result<()> {
        if role.is_some_and(Role::hands_on) {
            self.look_up_roles()?;
        }
        match role {
            Some(role) => self.interfaces.insert(ifindex, RawRole::from(role), 0),
            None => absent(self.interfaces.remove(&ifindex)),
        }
        .with_context(|| format!("cannot write INTERFACES for {ifindex}"))
    }

    /// Removes interfaces that went while no agent ran: their numbers may come again.
    pub fn retain_roles(&mut self, is_there: impl Fn(u32) -> bool) {
        let known: Vec<u32> = self.interfaces.keys().flatten().collect();
        for ifindex in known.into_iter().filter(|ifindex| !is_there(*ifindex)) {
            if let Err(error) = self.set_role(ifindex, None) {
                tracing::warn!(error = format!("{error:#}"), "the role of an interface that is gone stays");
            }
        }
    }
}
