//! What depends on the roles of interfaces: INTERFACES, XDP at uplinks, and whether all packets of a socket load balancer's calls
//! meet a hook.

use super::{Attachments, vanished};
use crate::kernel::maps::Writer;
use crate::node::netlink::Role;
use crate::shared::status::{Attachment, SocketLb};
use anyhow::{Result, bail};
use std::collections::BTreeMap;

/// Kind of devices whose own programs may redirect packets before ours see them, selected or not.
const NETKIT: &str = "netkit";

impl Attachments {
    /// Writes the roles that changed into INTERFACES. An interface without our hooks has no role, because it proves nothing.
    pub fn write_roles(&mut self, writer: &mut Writer) {
        let attached = |ifindex| self.interfaces.get(&ifindex).map(|at| at.attached);
        let numbers = self.roles.numbers(|ifindex| attached(ifindex) == Some(true));
        let wanted: BTreeMap<u32, Role> =
            numbers.filter(|(ifindex, _)| !self.lost && attached(*ifindex) != Some(false)).collect();
        let gone: Vec<u32> =
            self.written.keys().filter(|ifindex| !wanted.contains_key(ifindex)).copied().collect();
        let new = wanted.into_iter().map(|(ifindex, role)| (ifindex, Some(role)));
        for (ifindex, role) in gone.into_iter().map(|ifindex| (ifindex, None)).chain(new) {
            if self.written.get(&ifindex).copied() == role {
                continue;
            }
            match writer.set_role(ifindex, role) {
                Ok(()) => match role {
                    Some(role) => drop(self.written.insert(ifindex, role)),
                    None => drop(self.written.remove(&ifindex)),
                },
                Err(error) => tracing::warn!(
                    ifindex,
                    error = format!("{error:#}"),
                    "a role is tried again: Cilium's records and `terminated` need it"
                ),
            }
        }
    }

    /// Hooks XDP at an uplink. Where XDP fails or is not allowed, TC judges alone, unless the operator demands XDP at
    /// the start.
    pub(super) fn judge_early(&mut self, attachment: &mut Attachment) {
        let (ifindex, name) = (attachment.ifindex, &attachment.name);
        let hooked = match self.roles.role(ifindex) {
            _ if !attachment.attached => return,
            Some(Role::Uplink) => self.datapath.hook_xdp(ifindex, name),
            // At the start the default routes are not known yet. A link that was taken over must not be missing in
            // between.
            _ if attachment.xdp.is_none() => return,
            _ => self.datapath.unhook_xdp(ifindex).map(|_| None),
        };
        if hooked.as_ref().is_err_and(vanished) {
            return;
        }
        let error = hooked.as_ref().err().map(|error| format!("{error:#}"));
        if let Some(error) = error.as_ref().filter(|error| attachment.xdp_error.as_ref() != Some(error)) {
            tracing::info!(interface = name, error, "no XDP: TC judges alone");
        }
        attachment.xdp = hooked.ok().flatten().map(|mode| mode.to_string());
        attachment.xdp_error = error;
    }

    /// The error that ends the agent at its start, if the operator demands XDP and an interface has none.
    pub(super) fn insist_on_xdp(&self) -> Result<()> {
        for Attachment { name, xdp_error, .. } in self.interfaces.values() {
            if let Some(error) = xdp_error
                && self.datapath.demands_xdp()
            {
                bail!("cannot attach XDP to interface {name}, which --xdp requires: {error}")
            }
        }
        Ok(())
    }

    /// Hooks a socket load balancer, if there is one. First: calls are judged before and after it. Second: every packet of such
    /// a call meets a hook: pod interfaces and uplinks are selected, all are hooked, ours runs first, and none is a netkit device,
    /// whose own programs may redirect packets before.
    pub fn follow_socket_lb(&mut self) -> Result<(bool, bool)> {
        let in_force = self.datapath.follow_socket_lb()?;
        let mut all = self.interfaces.values();
        let hooked = all.all(|at| at.attached && at.before.is_empty());
        let everywhere =
            hooked && self.roles.name_both_sides() && self.roles.of_kind(NETKIT).next().is_none();
        Ok((in_force, everywhere))
    }

    /// Whether hooks judge the calls of a socket load balancer.
    pub fn has_socket_lb(&self) -> bool {
        self.datapath.has_socket_lb()
    }

    /// The socket load balancer of the node.
    pub fn socket_lb(&self) -> SocketLb {
        let netkit = self.roles.of_kind(NETKIT).map(Into::into).collect();
        SocketLb { netkit, ..self.datapath.socket_lb() }
    }
}
