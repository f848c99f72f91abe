//! INTERFACES: the role of each interface on the node, and its bridge.

use super::{Writer, absent};
use epguard_common::Interface;

impl Writer {
    /// Sets the entry of an interface; `None` if it is gone. Packets that lead to an interface without a role pass.
    pub fn set_interface(&mut self, ifindex: u32, interface: Option<Interface>) {
        let written = match interface {
            Some(interface) => self.interfaces.insert(ifindex, interface, 0),
            None => absent(self.interfaces.remove(&ifindex)),
        };
        if let Err(error) = written {
            tracing::warn!(ifindex, %error, "cannot write INTERFACES; what leads there is not denied as terminated");
        }
    }

    /// Removes interfaces that went while no agent ran: their numbers may come again.
    pub fn retain_interfaces(&mut self, is_there: impl Fn(u32) -> bool) {
        let known: Vec<u32> = self.interfaces.keys().flatten().collect();
        for ifindex in known.into_iter().filter(|ifindex| !is_there(*ifindex)) {
            self.set_interface(ifindex, None);
        }
    }
}
