//! The interfaces that carry our hooks: hooks new ones, checks hooked ones and retries failed ones.

mod entrance_checks;
mod entrances;
mod hook_delay;
mod ingress;
mod ingress_need;
mod uplinks;

use crate::daemon::node_thread::HookedInterface;
use crate::kernel::datapath::{Chain, Datapath, Hooks, failed_with};
use crate::node::netlink::{Interface, Role, Roles, Selection};
use crate::shared::status::Attachment;
use anyhow::{Context as _, Result, bail};
use entrances::Entrances;
use hook_delay::HookDelay;
use ingress_need::IngressNeed;
use nix::libc;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// How often the chains are checked for hooks that another program removed.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// How often an interface that could not be hooked is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How long one tick checks interfaces. The kernel answers about each once other programs' changes
/// of the network are done, and new interfaces are hooked between ticks.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Interfaces that are hooked, and those that could not be hooked.
pub struct Attachments {
    datapath: Datapath,
    roles: Roles,
    interfaces: BTreeMap<u32, Attachment>,
    /// The numbers of the events that announced them, and bridges.
    events: BTreeMap<u32, u64>,
    entrances: Entrances,
    need: IngressNeed,
    knows_defaults: bool,
    checked: Instant,
    /// Interfaces to check.
    due: VecDeque<u32>,
    retried: Instant,
    waiting: HookDelay,
}

impl Attachments {
    /// Without interfaces. Those to come get the ingress hook if the datapath wants it, for ten
    /// minutes or as long as something needs it.
    pub fn new(datapath: Datapath, selection: Selection, clsact_delay: Duration) -> Self {
        let delay = match datapath.path() {
            Hooks::Clsact => clsact_delay,
            _ => Duration::ZERO,
        };
        let need = if datapath.wants_ingress() {
            IngressNeed::until(Instant::now())
        } else {
            IngressNeed::default()
        };
        Self {
            waiting: HookDelay::new(delay),
            need,
            datapath,
            roles: Roles::new(selection),
            interfaces: BTreeMap::new(),
            events: BTreeMap::new(),
            entrances: Entrances::default(),
            knows_defaults: false,
            checked: Instant::now(),
            due: VecDeque::new(),
            retried: Instant::now(),
        }
    }

    /// The interfaces, ascending.
    pub fn list(&self) -> impl Iterator<Item = HookedInterface> {
        self.interfaces.iter().map(|(ifindex, shown)| {
            let event = self.events.get(ifindex).copied().unwrap_or_default();
            HookedInterface {
                event,
                shown: shown.clone(),
            }
        })
    }

    /// Hooks an interface that is new, renamed, or now selected. `event` is the number of the event
    /// that announced it.
    pub fn appeared(&mut self, event: u64, interface: &Interface) {
        let ifindex = interface.ifindex;
        self.events.insert(ifindex, event);
        let Some(role) = self.roles.add(interface) else {
            if self.roles.is_bridge(ifindex) {
                self.look_at_bridge(ifindex);
            }
            return;
        };
        let mut attachment = Attachment {
            ifindex: interface.ifindex,
            name: interface.name.clone(),
            role: role.as_str().to_owned(),
            kernel_path: self.datapath.path().to_string(),
            ..Attachment::default()
        };
        // One that was renamed has its hooks already.
        if self.waiting.has_to_wait(ifindex)
            && !self
                .datapath
                .chain_if_hooked(ifindex)
                .is_ok_and(|chain| chain.is_some())
        {
            attachment.waiting = true;
            self.interfaces.insert(ifindex, attachment);
            return;
        }
        let hooked = self.datapath.hook(ifindex, &interface.name);
        self.record_hooked(attachment, hooked);
    }

    /// Drops an interface.
    pub fn gone(&mut self, ifindex: u32) {
        self.interfaces.remove(&ifindex);
        self.events.remove(&ifindex);
        self.roles.remove(ifindex);
        self.waiting.gone(ifindex);
        self.entrances.gone(ifindex);
        self.datapath.unhook(ifindex);
    }

    /// Sets the interfaces that default routes lead through. The first call fails if one of them
    /// cannot have the XDP that the operator demands.
    pub fn set_defaults(&mut self, defaults: BTreeSet<u32>) -> Result<()> {
        for ifindex in self.roles.set_defaults(defaults) {
            if let Some(role) = self.roles.role(ifindex)
                && let Some(mut shown) = self.interfaces.remove(&ifindex)
            {
                role.as_str().clone_into(&mut shown.role);
                self.follow_xdp(&mut shown);
                self.interfaces.insert(ifindex, shown);
            }
        }
        if self.knows_defaults {
            return Ok(());
        }
        self.knows_defaults = true;
        self.insist_on_xdp()
    }

    /// Every interface that existed at the start has been reported. Errors: none is to be hooked,
    /// or one cannot have the XDP that the operator demands.
    pub fn settled(&mut self) -> Result<()> {
        if self.interfaces.is_empty() {
            bail!(
                "no interface matches --pod-interfaces and --uplinks: nothing would be protected (see `ip link`)"
            )
        }
        self.waiting.settled();
        self.entrances.settled();
        self.insist_on_xdp()?;
        tracing::info!(
            interfaces = self.interfaces.values().filter(|at| at.attached).count(),
            "hooked"
        );
        Ok(())
    }

    /// Removes what earlier processes left on other interfaces than those that are hooked now.
    pub fn remove_leftovers(&self) {
        match self.datapath.remove_leftovers() {
            Ok(removed) => {
                for what in removed {
                    tracing::info!(what, "removed leftovers of an earlier process");
                }
            }
            Err(error) => warn_of(
                &error,
                "leftovers of an earlier process stay; `epguard detach`, with the agent stopped, removes them",
            ),
        }
    }

    /// Detaches from dropped interfaces, retries failed ones, and checks the others every ten
    /// seconds.
    pub fn tick(&mut self) {
        if self.retried.elapsed() < RETRY_INTERVAL {
            return;
        }
        self.retried = Instant::now();
        if let Err(error) = self.datapath.detach_leaving() {
            warn_of(
                &error,
                "an interface that is no longer selected stays hooked; trying again",
            );
        }
        if !self.due.is_empty() {
            self.reattach();
        } else if self.checked.elapsed() < CHECK_INTERVAL {
            let failed = self
                .interfaces
                .values()
                .filter(|at| !at.attached || at.ingress_error.is_some());
            self.due = failed.map(|at| at.ifindex).chain(self.unseen()).collect();
            self.reattach();
        } else {
            self.check();
        }
    }

    /// Checks all hooks, and attaches again where another program detached us, or where an
    /// interface was made anew.
    pub fn check(&mut self) {
        self.checked = Instant::now();
        self.due = self
            .interfaces
            .keys()
            .copied()
            .chain(self.bridges())
            .collect();
        self.reattach();
    }

    /// Checks interfaces that are due, for [`AT_ONCE`]; the next tick goes on.
    fn reattach(&mut self) {
        let begun = Instant::now();
        while begun.elapsed() < AT_ONCE
            && let Some(ifindex) = self.due.pop_front()
        {
            match self.interfaces.get(&ifindex).cloned() {
                Some(attachment) if self.waiting.is_over(ifindex) => self.check_one(attachment),
                Some(_) => {}
                None => self.look_at_bridge(ifindex),
            }
        }
    }

    fn check_one(&mut self, attachment: Attachment) {
        if self.roles.role(attachment.ifindex) != Some(Role::Uplink)
            && let Err(error) = self.datapath.unhook_xdp(attachment.ifindex)
        {
            warn_of(
                &error,
                "cannot detach XDP from an interface that is no uplink; trying again",
            );
        }
        let hooked = match self.datapath.chain_if_hooked(attachment.ifindex) {
            Ok(Some(chain)) => Ok(chain),
            Ok(None) => {
                let interface = &attachment.name;
                if attachment.attached && attachment.ingress == self.datapath.wants_ingress() {
                    tracing::warn!(
                        interface,
                        "another program removed the hooks: attaching again"
                    );
                }
                self.datapath.hook(attachment.ifindex, interface)
            }
            Err(error) => Err(error),
        };
        self.record_hooked(attachment, hooked);
    }

    /// Removes all programs, links and maps of epguard from the kernel.
    pub fn detach(self) -> Result<Vec<String>> {
        self.datapath
            .detach()
            .context("cannot detach; `epguard detach` tries again")
    }

    /// Records the result of hooking an interface. A failure at one interface does not end the
    /// agent: it is tried again.
    fn record_hooked(&mut self, mut attachment: Attachment, hooked: Result<Chain>) {
        attachment.waiting = false;
        let name = &attachment.name;
        match hooked {
            Err(error) if vanished(&error) => return,
            Err(error) => {
                let error = format!("{error:#}");
                if attachment.error.as_ref() != Some(&error) {
                    tracing::error!(
                        interface = name,
                        error,
                        "not hooked: packets there pass unseen; trying again every second (other programs' hooks: `bpftool net show dev`, `tc filter show dev`)"
                    );
                }
                attachment.attached = false;
                attachment.ingress = false;
                attachment.error = Some(error);
            }
            Ok(chain) => {
                if chain.before != attachment.before {
                    let before = chain.before.join(", ");
                    tracing::warn!(
                        interface = name,
                        position = chain.position,
                        before,
                        "not first"
                    );
                }
                if chain.ingress_error != attachment.ingress_error
                    && let Some(error) = &chain.ingress_error
                {
                    tracing::error!(
                        interface = name,
                        error,
                        "the ingress hook: no flow is redirected anew; trying again"
                    );
                }
                attachment.attached = true;
                attachment.error = None;
                attachment.ingress = chain.ingress;
                attachment.ingress_error = chain.ingress_error;
                attachment.position = chain.position;
                attachment.before = chain.before;
                self.entrances
                    .record_look(attachment.ifindex, chain.at_ingress);
                self.follow_xdp(&mut attachment);
            }
        }
        self.interfaces.insert(attachment.ifindex, attachment);
    }
}

/// Logs an error after which the agent continues.
fn warn_of(error: &anyhow::Error, what: &str) {
    tracing::warn!(error = format!("{error:#}"), "{what}");
}

/// True if an interface was deleted between its announcement and the attachment.
fn vanished(error: &anyhow::Error) -> bool {
    failed_with(error, &[libc::ENODEV, libc::ENXIO])
}
