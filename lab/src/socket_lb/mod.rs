//! A stand-in for Cilium where it replaces kube-proxy: the programs of `lab/neighbour/src/socket_lb` at a root cgroup,
//! which translate cluster IPs at `connect` and `sendmsg`. Only calls change its Services, so that it can be late. Its maps are also
//! those of the programs that translate packets ([`Kind::PacketLb`](crate::neighbour::Kind::PacketLb)).
//!
//! Its root is a cgroup of the lab's own ([`crate::net::SocketRoot`]), and it acts only on sockets of the network namespaces
//! that it is given: no process of this machine meets it.

mod hooks;
mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use aya::maps::MapInfo;

use crate::neighbour::pinned;
use crate::net::{NetNs, netns_cookie};
use crate::proxy::ServiceRule;
use hooks::{Hooks, ciliums, load_programs, replace_maps};
use tables::Tables;

/// The load balancer of one node. Dropping it detaches its programs, and so does the kernel if the process is killed.
#[derive(Debug)]
pub struct SocketLb {
    cgroup: PathBuf,
    pins: PathBuf,
    hooks: Option<Hooks>,
    tables: Tables,
    rules: Vec<ServiceRule>,
    /// Cookies by name.
    namespaces: BTreeMap<String, u64>,
}

impl SocketLb {
    /// One for the sockets below a cgroup, not started yet; `pins` is a folder in a bpffs for its maps.
    pub fn new(cgroup: &Path, pins: &Path) -> Self {
        Self {
            cgroup: cgroup.to_owned(),
            pins: pins.to_owned(),
            hooks: None,
            tables: Tables::default(),
            rules: Vec::new(),
            namespaces: BTreeMap::new(),
        }
    }

    /// Loads and attaches the programs, behind those that are at the root. If it is attached already, the new programs take
    /// the places of the old ones: model `attachCgroup()` of `pkg/socketlb/cgroup.go`, Cilium commit 265414935e08. Needs
    /// root.
    pub fn start(&mut self) -> Result<()> {
        let mut object = load_programs(&self.pins)?;
        let old = self.hooks.take();
        // The maps have their contents before a program reads them.
        self.write_services()?;
        self.write_namespaces()?;
        self.hooks = Some(Hooks::attach(&mut object, &self.cgroup, old)?);
        Ok(())
    }

    /// Detaches the programs. Its maps stay, as Cilium's do: open sockets are shown their cluster IPs again after a start.
    pub fn stop(&mut self) -> Result<()> {
        self.hooks.take().map_or(Ok(()), Hooks::detach)
    }

    /// Whether its programs are attached.
    pub fn is_attached(&self) -> bool {
        self.hooks.is_some()
    }

    /// Replaces all Services by these. Of their frontends only cluster IPs are served, over TCP and UDP. Connected sockets
    /// keep their backends.
    pub fn program(&mut self, rules: &[ServiceRule]) -> Result<()> {
        self.rules = rules.to_vec();
        self.write_services()
    }

    /// Writes the Services, unless nothing has made the maps yet.
    pub(crate) fn write_services(&mut self) -> Result<()> {
        if self.pins.join("SOCKET_SERVICES").exists() {
            self.tables.write_services(&self.pins, &self.rules)?;
        }
        Ok(())
    }

    /// Does what Cilium's agent does when it starts with other sizes of maps: pins new ones in place of the old ones, and fills those
    /// of reversals. Programs use the old ones until they are started again.
    pub fn resize(&mut self) -> Result<()> {
        replace_maps(&self.pins)?;
        self.write_services()
    }

    /// Names and ids of the pinned maps of Cilium's names. None before the first start.
    pub fn pinned(&self) -> Result<Vec<(&'static str, u32)>> {
        if !self.pins.exists() {
            return Ok(Vec::new());
        }
        let id = |pin| MapInfo::from_pin(self.pins.join(pin)).map(|info| info.id());
        ciliums().map(|(_, pin)| Ok((pin, id(pin)?))).collect()
    }

    /// Translates the sockets of these network namespaces, and of no others: those of a node and its pods.
    pub fn serve(&mut self, namespaces: &[&NetNs]) -> Result<()> {
        let mut cookies = BTreeMap::new();
        for namespace in namespaces {
            let name = namespace.name();
            let cookie = match self.namespaces.get(name) {
                Some(cookie) => *cookie,
                None => namespace.run(netns_cookie)??,
            };
            cookies.insert(name.to_owned(), cookie);
        }
        self.namespaces = cookies;
        if self.is_attached() { self.write_namespaces() } else { Ok(()) }
    }

    fn write_namespaces(&self) -> Result<()> {
        let wanted = self.namespaces.values().map(|cookie| (*cookie, 1_u32));
        pinned::replace(&self.pins, "NAMESPACES", &wanted.collect())
    }
}

impl Drop for SocketLb {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
