//! The interfaces that carry our hooks: from the kernel's news to the datapath, and looked after.

use crate::datapath::{Chain, Datapath};
use crate::netlink::{Interface, Role, Roles, Selection};
use crate::status::Attachment;
use anyhow::{Context as _, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How often the chains are looked at for hooks that somebody removed.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// What is hooked, and what could not be.
pub struct Attachments {
    datapath: Datapath,
    roles: Roles,
    /// A hook that cannot be attached ends the agent (design section 6.8).
    must_enforce: bool,
    interfaces: BTreeMap<u32, Attachment>,
    checked: Instant,
}

impl Attachments {
    /// None yet.
    #[must_use]
    pub fn new(datapath: Datapath, selection: Selection, must_enforce: bool) -> Self {
        Self {
            datapath,
            roles: Roles::new(selection),
            must_enforce,
            interfaces: BTreeMap::new(),
            checked: Instant::now(),
        }
    }

    /// For the status.
    pub fn list(&self) -> impl Iterator<Item = &Attachment> {
        self.interfaces.values()
    }

    /// Hooks an interface that is new, renamed, or now selected.
    pub fn appeared(&mut self, interface: &Interface) -> Result<()> {
        let Some(role) = self.roles.add(interface) else {
            return Ok(());
        };
        let attachment = Attachment {
            ifindex: interface.ifindex,
            name: interface.name.clone(),
            role: role.as_str().to_owned(),
            kernel_path: self.datapath.path().as_str().to_owned(),
            ..Attachment::default()
        };
        let hooked = self.datapath.hook(interface.ifindex, &interface.name);
        self.note(attachment, hooked)
    }

    /// Lets an interface go.
    pub fn gone(&mut self, ifindex: u32) {
        self.interfaces.remove(&ifindex);
        self.roles.remove(ifindex);
        self.datapath.unhook(ifindex);
    }

    /// Takes in which interfaces default routes lead through; those whose role that may change.
    pub fn set_defaults(&mut self, defaults: BTreeSet<u32>) -> Result<Vec<u32>> {
        let changed = self.roles.set_defaults(defaults);
        for ifindex in &changed {
            if let Some((role, mut shown)) = self.roles.role(*ifindex).zip(self.interfaces.remove(ifindex)) {
                role.as_str().clone_into(&mut shown.role);
                self.judge_early(&mut shown)?;
                self.interfaces.insert(*ifindex, shown);
            }
        }
        Ok(changed)
    }

    /// As INTERFACES holds it.
    #[must_use]
    pub fn known_role(&self, ifindex: u32) -> Option<epguard_common::Role> {
        self.roles.number(ifindex)
    }

    /// Every interface that was there at the start has been told of.
    pub fn settled(&mut self) -> Result<()> {
        if self.interfaces.is_empty() {
            bail!(
                "no interface matches --pod-interfaces and --uplinks: nothing would be protected (see `ip link`)"
            )
        }
        tracing::info!(interfaces = self.interfaces.len(), "hooked");
        for what in self.datapath.remove_leftovers()? {
            tracing::info!(what, "removed what an earlier process left");
        }
        Ok(())
    }

    /// Detaches from what was let go, and looks after the rest now and then.
    pub fn tick(&mut self) -> Result<()> {
        self.datapath.detach_leaving()?;
        if self.checked.elapsed() < CHECK_INTERVAL {
            return Ok(());
        }
        self.checked = Instant::now();
        self.check()
    }

    /// Attaches again where somebody detached us.
    pub fn check(&mut self) -> Result<()> {
        for attachment in self.interfaces.values().cloned().collect::<Vec<_>>() {
            if self.roles.role(attachment.ifindex) != Some(Role::Uplink) {
                self.datapath.unhook_xdp(attachment.ifindex)?;
            }
            let hooked = match self.datapath.find(attachment.ifindex) {
                Ok(Some(chain)) => Ok(chain),
                Ok(None) => {
                    let interface = &attachment.name;
                    if attachment.attached {
                        tracing::warn!(
                            interface,
                            "the hooks were removed by somebody else: attaching again"
                        );
                    }
                    self.datapath.hook(attachment.ifindex, interface)
                }
                Err(error) => Err(error),
            };
            self.note(attachment, hooked)?;
        }
        Ok(())
    }

    /// Removes everything of ours from the kernel.
    pub fn detach(self) -> Result<Vec<String>> {
        self.datapath
            .detach()
            .context("cannot detach; `epguard detach` tries again")
    }

    /// XDP at uplinks. What it cannot do, or must not, TC does; unless the operator demands XDP.
    fn judge_early(&mut self, attachment: &mut Attachment) -> Result<()> {
        let (ifindex, name) = (attachment.ifindex, &attachment.name);
        let hooked = match self.roles.role(ifindex) {
            _ if !attachment.attached => return Ok(()),
            Some(Role::Uplink) => self.datapath.hook_xdp(ifindex, name),
            // At the start nobody knows the default routes yet, and a link that is taken over must not go in between.
            _ if attachment.xdp.is_none() => return Ok(()),
            _ => self.datapath.unhook_xdp(ifindex).map(|_| None),
        };
        let error = match &hooked {
            Err(error) if vanished(error) => return Ok(()),
            Err(error) if self.datapath.demands_xdp() => {
                bail!("cannot attach XDP to interface {name}, which --xdp demands: {error:#}")
            }
            hooked => hooked.as_ref().err().map(|error| format!("{error:#}")),
        };
        if let Some(error) = error
            .as_ref()
            .filter(|error| attachment.xdp_error.as_ref() != Some(error))
        {
            tracing::info!(interface = name, error, "no XDP: TC judges alone");
        }
        attachment.xdp = hooked.ok().flatten().map(|mode| mode.as_str().to_owned());
        attachment.xdp_error = error;
        Ok(())
    }

    fn note(&mut self, mut attachment: Attachment, hooked: Result<Chain>) -> Result<()> {
        let name = &attachment.name;
        match hooked {
            Err(error) if vanished(&error) => return Ok(()),
            Err(error) if self.must_enforce => return Err(error),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(interface = name, error, "not hooked");
                attachment.attached = false;
                attachment.error = Some(error);
            }
            Ok(chain) => {
                if chain.before != attachment.before {
                    let before = chain.before.join(", ");
                    tracing::warn!(interface = name, position = chain.position, before, "not first");
                }
                attachment.attached = true;
                attachment.error = None;
                attachment.position = chain.position;
                attachment.before = chain.before;
                attachment.after = chain.after;
                self.judge_early(&mut attachment)?;
            }
        }
        self.interfaces.insert(attachment.ifindex, attachment);
        Ok(())
    }
}

/// Whether an interface went away between its announcement and the attachment.
fn vanished(error: &anyhow::Error) -> bool {
    let gone = |error: &std::io::Error| matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO));
    error
        .chain()
        .any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(gone))
}
