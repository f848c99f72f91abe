//! The socket load balancer of the node, and whether all packets of its calls meet a hook.

use super::Attachments;
use crate::node::netlink::Interface;
use crate::shared::status::SocketLb;
use anyhow::Result;

impl Attachments {
    /// Hooks a socket load balancer, if there is one. First: calls are judged before and after it. Second: every packet of such
    /// a call meets a hook: pod interfaces and uplinks are selected, all are hooked, ours runs first, and none is a netkit device,
    /// whose own programs may redirect packets before.
    pub fn follow_socket_lb(&mut self) -> Result<(bool, bool)> {
        let in_force = self.datapath.follow_socket_lb()?;
        let mut all = self.interfaces.values();
        let hooked = all.all(|at| at.attached && at.before.is_empty());
        let everywhere = hooked && self.roles.name_both_sides() && self.netkit.is_empty();
        Ok((in_force, everywhere))
    }

    /// Whether hooks judge the calls of a socket load balancer.
    #[must_use]
    pub fn has_socket_lb(&self) -> bool {
        self.datapath.has_socket_lb()
    }

    /// The socket load balancer of the node.
    #[must_use]
    pub fn socket_lb(&self) -> SocketLb {
        SocketLb { netkit: self.netkit.values().cloned().collect(), ..self.datapath.socket_lb() }
    }

    /// Notes a netkit device.
    pub(super) fn note_kind(&mut self, interface: &Interface) {
        if interface.kind == "netkit" {
            self.netkit.insert(interface.ifindex, interface.name.clone());
        }
    }
}
