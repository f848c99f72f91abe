//! The kernel side and its life cycle.
//!
//! `object` is loaded over the maps in `pins` · TCX `links` or `clsact` filters hook interfaces and
//! `socket_lb` hooks cgroups, over `bpf` · `xdp` judges earlier at uplinks, where `xdp_device`
//! permits it · `chain` lists the programs there · `detach` removes it all.
//!
//! Everything is pinned: when the process ends, denials go on until the lease does. The next
//! process puts its programs into the same links, so that at no moment a packet meets none, or two.

pub mod bpf;
mod chain;
mod clsact;
mod detach;
#[cfg(test)]
mod fuzz;
mod hook;
mod links;
pub(crate) mod object;
mod pins;
mod socket_lb;
mod xdp;
mod xdp_device;

pub use bpf::failed_with;
pub use chain::Chain;
pub use detach::detach;
pub use hook::{Hook, Hooks, Xdp};
pub use links::has_tcx;
pub use object::check_kernel;
pub use pins::{Pins, unpin};
pub use socket_lb::find_cgroup2;
pub use xdp_device::XdpMode;

use crate::kernel::maps;
use crate::shared::status::SocketLb;
use anyhow::{Context as _, Result, bail};
use aya::Ebpf;
use epguard_common::{Outcome, Reason};
use socket_lb::SocketLbHooks;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

/// The loaded programs and where they are attached. Dropping it leaves everything as it is.
pub struct Datapath {
    /// The loaded object, for the maps and the logger.
    pub ebpf: Ebpf,
    pins: Pins,
    /// TCX or clsact.
    path: Hooks,
    xdp: Xdp,
    /// Errors of drivers that take no XDP program: tried once, since some drivers log each refusal.
    xdp_refused: BTreeMap<u32, String>,
    /// Ids of the programs in the order of [`Hook::ALL`].
    programs: [u32; 2],
    /// Whether interfaces get the ingress hook, too.
    ingress: bool,
    hooked: BTreeSet<u32>,
    /// Where a socket load balancer is looked for; `None` without cgroup2.
    cgroup: Option<PathBuf>,
    socket_lb: SocketLbHooks,
    /// Whether refused calls fail with `ECONNREFUSED`.
    sets_error: bool,
    /// Interfaces whose hooks are removed, unless they are hooked again.
    leaving: BTreeSet<u32>,
}

impl Datapath {
    /// Loads the object over the maps pinned under `<pin-dir>/v3`, or over new ones. The attached
    /// programs of an earlier process run on until this process replaces them or removes them as
    /// left over. `nfct_at`: where `_nfct` lies in `struct sk_buff`; 0: the programs read no
    /// conntrack entries.
    pub fn load(pin_dir: &Path, hooks: Hooks, nfct_at: u32) -> Result<Self> {
        let pins = Pins::make(pin_dir)?;
        let sets_error = socket_lb::can_set_error();
        let mut ebpf = object::load(&pins, sets_error, nfct_at)?;
        let path = match (hooks, has_tcx()) {
            (Hooks::Auto | Hooks::Tcx, true) => Hooks::Tcx,
            (Hooks::Auto, false) | (Hooks::Clsact, _) => Hooks::Clsact,
            (Hooks::Tcx, false) => {
                bail!("this kernel has no TCX (Linux 6.6): use --hooks auto or clsact")
            }
        };
        let mut programs = [0; 2];
        for (hook, id) in Hook::ALL.into_iter().zip(&mut programs) {
            *id = object::classifier(&mut ebpf, hook)?.info()?.id();
        }
        Ok(Self {
            ebpf,
            pins,
            path,
            xdp: Xdp::Off,
            xdp_refused: BTreeMap::new(),
            programs,
            ingress: true,
            hooked: BTreeSet::new(),
            cgroup: None,
            socket_lb: SocketLbHooks::default(),
            sets_error,
            leaving: BTreeSet::new(),
        })
    }

    /// How interfaces are hooked: TCX or clsact.
    pub const fn path(&self) -> Hooks {
        self.path
    }

    /// Looks for socket load balancers at this cgroup and above it from now on.
    pub fn with_cgroup(mut self, cgroup: Option<PathBuf>) -> Self {
        self.cgroup = cgroup;
        self
    }

    /// Looks for a socket load balancer, and hooks it. True if calls are judged before and after
    /// it.
    ///
    /// Errors: the programs of a cgroup cannot be listed, or a link cannot be removed.
    pub fn follow_socket_lb(&mut self) -> Result<bool> {
        let Some(cgroup) = &self.cgroup else {
            return Ok(false);
        };
        self.socket_lb.follow(&mut self.ebpf, &self.pins, cgroup)?;
        Ok(self.socket_lb.shown.in_force)
    }

    /// Whether a socket load balancer was found.
    pub fn has_socket_lb(&self) -> bool {
        !self.socket_lb.shown.programs.is_empty()
    }

    /// The status of the socket load balancer.
    pub fn socket_lb(&self) -> SocketLb {
        let shown = SocketLb {
            refuses: self.sets_error,
            ..self.socket_lb.shown.clone()
        };
        if shown.programs.is_empty() {
            return shown;
        }
        SocketLb {
            translated: self.packets(Outcome::Translated),
            unknown_sockets: self.packets(Outcome::UnknownSocket),
            ..shown
        }
    }

    /// How many packets without a reason had this outcome.
    fn packets(&self, outcome: Outcome) -> u64 {
        maps::packets(self.pins.root(), Reason::Nothing, outcome)
    }

    /// Whether interfaces get the ingress hook, too, when they are hooked next.
    pub const fn want_ingress(&mut self, wanted: bool) {
        self.ingress = wanted;
    }

    /// Whether interfaces are to have it.
    pub const fn wants_ingress(&self) -> bool {
        self.ingress
    }

    /// Hooks an interface, before all other programs. Existing hooks of ours get these programs. An
    /// ingress hook that cannot be attached is an error of the chain.
    pub fn hook(&mut self, ifindex: u32, interface: &str) -> Result<Chain> {
        // Each query takes the kernel's lock of all interfaces, and a new interface waits for its
        // hooks.
        let is_new = self.path == Hooks::Tcx
            && !Hook::ALL
                .iter()
                .any(|hook| self.pins.link(ifindex, *hook).exists());
        if !is_new && let Some(chain) = self.chain_if_hooked(ifindex)? {
            self.hooked.insert(ifindex);
            return Ok(chain);
        }
        if let Err(error) = self.attach(ifindex, interface, Hook::Egress) {
            // Another process may hold our links, whose pins are gone (EEXIST).
            let ingress = self.follow_ingress(ifindex, interface);
            let Ok(Some(chain)) = chain::read_chain(ifindex, self.programs) else {
                return Err(error);
            };
            tracing::warn!(
                interface,
                error = format!("{error:#}"),
                "our hooks are there without their pins: restarting the node or the interface removes them"
            );
            self.hooked.insert(ifindex);
            return Ok(chain.with_ingress(ingress));
        }
        let ingress = self.follow_ingress(ifindex, interface);
        // An earlier process may have used the other kind of hooks.
        match self.path {
            Hooks::Clsact => links::detach_tcx(&self.pins, ifindex)?,
            _ => clsact::detach(&self.pins, ifindex)?,
        };
        if self.xdp == Xdp::Off {
            links::detach_xdp(&self.pins, ifindex)?;
        }
        self.hooked.insert(ifindex);
        let chain = chain::read_chain(ifindex, self.programs)?;
        let chain = chain.with_context(|| {
            format!("another program detached epguard from interface {interface} at once")
        })?;
        Ok(chain.with_ingress(ingress))
    }

    /// Attaches the ingress hook, or removes it.
    fn follow_ingress(&mut self, ifindex: u32, interface: &str) -> Result<()> {
        if self.ingress {
            return self.attach(ifindex, interface, Hook::Ingress);
        }
        match self.path {
            Hooks::Clsact => clsact::detach_at(ifindex, Hook::Ingress),
            _ => links::detach_tcx_at(&self.pins, ifindex, Hook::Ingress),
        }
        .map(drop)
        .with_context(|| {
            format!(
                "cannot remove {} from interface {interface}",
                Hook::Ingress.program()
            )
        })
    }

    fn attach(&mut self, ifindex: u32, interface: &str, hook: Hook) -> Result<()> {
        let classifier = object::classifier(&mut self.ebpf, hook)?;
        let id = classifier.info()?.id();
        let program = classifier.fd()?.try_clone()?;
        match self.path {
            Hooks::Clsact => clsact::attach(&self.pins, ifindex, hook, program.as_fd()),
            _ => links::attach_tcx(&self.pins, ifindex, hook, program.as_fd(), id),
        }
        .with_context(|| format!("cannot attach {} to interface {interface}", hook.program()))
    }

    /// Marks an interface that is gone, renamed or no longer selected. Unless it is hooked again
    /// before [`Datapath::detach_leaving`], its hooks are removed then.
    pub fn unhook(&mut self, ifindex: u32) {
        self.xdp_refused.remove(&ifindex);
        if self.hooked.remove(&ifindex) {
            self.leaving.insert(ifindex);
        }
    }

    /// Removes the hooks of interfaces that [`Datapath::unhook`] marked. Those where that fails
    /// stay marked, to be tried again.
    pub fn detach_leaving(&mut self) -> Result<()> {
        let mut failed = Ok(());
        for ifindex in std::mem::take(&mut self.leaving) {
            if self.hooked.contains(&ifindex) {
                continue;
            }
            let detached = links::detach_tcx(&self.pins, ifindex)
                .and_then(|_| clsact::detach(&self.pins, ifindex))
                .and_then(|_| self.unhook_xdp(ifindex));
            if let Err(error) = detached {
                self.leaving.insert(ifindex);
                failed = Err(error.context(format!("interface {ifindex}")));
            }
        }
        failed
    }

    /// The programs at the interface's hooks; none if ours are not exactly at those that are
    /// wanted.
    pub fn chain_if_hooked(&self, ifindex: u32) -> Result<Option<Chain>> {
        let chain = chain::read_chain(ifindex, self.programs)?;
        // One that is too many may be of an earlier process.
        let is_left = !self.ingress && self.pins.link(ifindex, Hook::Ingress).exists();
        Ok(chain.filter(|chain| chain.ingress == self.ingress && !is_left))
    }

    /// Programs and filters of others at the interface's ingress hook, hooked or not.
    pub fn others_at_ingress(&self, ifindex: u32) -> Result<Vec<String>> {
        chain::others_at_ingress(ifindex, self.programs[0])
    }

    /// Once all interfaces are hooked: removes what earlier processes left on others, and other ABI
    /// versions.
    pub fn remove_leftovers(&self) -> Result<Vec<String>> {
        detach::remove_leftovers(&self.pins, |ifindex| self.hooked.contains(&ifindex))
    }

    /// Removes everything, as [`detach()`] does.
    pub fn detach(self) -> Result<Vec<String>> {
        detach(self.pins.root())
    }
}
