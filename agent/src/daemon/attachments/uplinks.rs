//! What depends on the roles of interfaces: XDP at uplinks, and whether all packets of a socket
//! load balancer's calls meet a hook.

use super::{Attachments, vanished};
use crate::kernel::datapath::XdpMode;
use crate::node::netlink::Role;
use crate::shared::status::{Attachment, SocketLb};
use anyhow::{Result, bail};

/// Kind of devices whose own programs may redirect packets before ours see them, selected or not.
const NETKIT: &str = "netkit";

impl Attachments {
    /// Hooks XDP at an uplink, and removes it from an interface that is none any more. Where XDP
    /// fails or is not allowed, TC judges alone, unless the operator demands XDP at the start.
    pub(super) fn follow_xdp(&mut self, attachment: &mut Attachment) {
        if !attachment.attached {
            return;
        }
        let ifindex = attachment.ifindex;
        let hooked = if self.roles.role(ifindex) == Some(Role::Uplink) {
            self.datapath.hook_xdp(ifindex, &attachment.name)
        } else if attachment.xdp.is_some() {
            self.datapath.unhook_xdp(ifindex).map(|_| false)
        } else {
            // At the start the default routes are not known yet. A link that was taken over must
            // not be missing in between.
            return;
        };
        match hooked {
            Err(error) if vanished(&error) => {}
            Err(error) => {
                let error = format!("{error:#}");
                if attachment.xdp_error.as_ref() != Some(&error) {
                    let interface = &attachment.name;
                    tracing::info!(interface, error, "no XDP: TC judges alone");
                }
                attachment.xdp = None;
                attachment.xdp_error = Some(error);
            }
            Ok(is_hooked) => {
                attachment.xdp = is_hooked.then(|| XdpMode::Driver.to_string());
                attachment.xdp_error = None;
            }
        }
    }

    /// The error that ends the agent at its start, if the operator demands XDP and an interface has
    /// none.
    pub(super) fn insist_on_xdp(&self) -> Result<()> {
        for Attachment {
            name, xdp_error, ..
        } in self.interfaces.values()
        {
            if let Some(error) = xdp_error
                && self.datapath.demands_xdp()
            {
                bail!("cannot attach XDP to interface {name}, which --xdp requires: {error}")
            }
        }
        Ok(())
    }

    /// Hooks a socket load balancer, if there is one. Errors: the programs of a cgroup cannot be
    /// listed, or a link cannot be removed.
    pub fn follow_socket_lb(&mut self) -> Result<()> {
        self.datapath.follow_socket_lb()?;
        self.need.socket_lb = self.datapath.has_socket_lb();
        self.follow_need();
        Ok(())
    }

    /// True if every packet of a call that a socket load balancer translates meets a hook: pod
    /// interfaces and uplinks are selected, all are hooked, ours runs first, and none is a netkit
    /// device, whose own programs may redirect packets before.
    pub fn are_everywhere(&self) -> bool {
        let mut all = self.interfaces.values();
        let hooked = all.all(|at| at.attached && at.ingress && at.before.is_empty());
        hooked && self.roles.name_both_sides() && self.roles.of_kind(NETKIT).next().is_none()
    }

    /// The socket load balancer of the node.
    pub fn socket_lb(&self) -> SocketLb {
        let netkit = self.roles.of_kind(NETKIT).map(Into::into).collect();
        SocketLb {
            netkit,
            ..self.datapath.socket_lb()
        }
    }
}
