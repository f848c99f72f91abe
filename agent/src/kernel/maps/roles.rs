//! INTERFACES: the role of each interface on the node.

use super::{Writer, absent};
use epguard_common::{RawRole, Role};

impl Writer {
    /// Sets the role of an interface; `None` if it is gone. Packets that lead to an interface without a role pass.
    pub fn set_role(&mut self, ifindex: u32, role: Option<Role>) {
        let known = if role.is_some_and(Role::hands_on) {
            self.look_up_roles()
        } else {
            Ok(())
        };
        let written = known.and_then(|()| match role {
            Some(role) => Ok(self.interfaces.insert(ifindex, RawRole::from(role), 0)?),
            None => Ok(absent(self.interfaces.remove(&ifindex))?),
        });
        if let Err(error) = written {
            tracing::warn!(ifindex, %error, "cannot write INTERFACES; what leads there is not denied as terminated");
        }
    }

    /// Removes interfaces that went while no agent ran: their numbers may come again.
    pub fn retain_roles(&mut self, is_there: impl Fn(u32) -> bool) {
        let known: Vec<u32> = self.interfaces.keys().flatten().collect();
        for ifindex in known.into_iter().filter(|ifindex| !is_there(*ifindex)) {
            self.set_role(ifindex, None);
        }
    }
}
