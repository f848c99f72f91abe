//! The load balancer on a story's stage, with the cgroups whose sockets it translates, and its
//! programs at the interfaces of pods.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result};
use epguard::shared::status::Status;

use super::agent::Agent;
use super::format::{Call, Caller, SocketLbStep};
use crate::neighbour::{Neighbour, NeighbourKind, Place, Plan};
use crate::net::{NetCls, NetNs, SocketRoot};
use crate::socket_lb::SocketLb;
use crate::wait;

/// The cgroups of the sockets of pods, and of processes on the node.
const CGROUPS: [&str; 2] = ["kubepods.slice", "system.slice"];

/// The load balancer of node-a. Dropped in this order: its programs go before their cgroup.
#[derive(Debug)]
pub struct Balancer {
    pub(super) lb: SocketLb,
    /// Its programs at the interfaces of pods, if it does not translate their sockets. Without them
    /// no proxy is needed.
    pub(super) packets: Option<Neighbour>,
    caller: Caller,
    /// What stands for the root of cgroup v2.
    pub(super) root: SocketRoot,
    /// Made for the first call that needs it.
    net_cls: OnceLock<NetCls>,
}

impl Balancer {
    /// One that is not started yet; `pins` is a folder in a bpffs, `node` its node. `clsact`: its
    /// programs at interfaces are filters. Needs root.
    pub fn new(pins: &Path, caller: Caller, node: &NetNs, clsact: bool) -> Result<Self> {
        let root = SocketRoot::new()?;
        for cgroup in CGROUPS {
            root.make(cgroup)?;
        }
        let plan = Plan {
            kind: NeighbourKind::PacketLb,
            place: Place::Behind,
            clsact,
        };
        Ok(Self {
            lb: SocketLb::new(&root.path, pins),
            packets: caller
                .is_per_packet()
                .then(|| Neighbour::new(plan, node, pins)),
            caller,
            root,
            net_cls: OnceLock::new(),
        })
    }

    /// The cgroups in which a host makes its sockets for a call: one of v2, and if the call wants
    /// it one of `net_cls`.
    pub fn cgroups(&self, host: &str, call: Option<&Call>) -> Result<Vec<PathBuf>> {
        let [pods, node] = CGROUPS;
        let own = if host == "node-a" { node } else { pods };
        let named = call.and_then(|call| call.cgroup.as_deref());
        let mut cgroups = vec![self.root.path.join(named.unwrap_or(own))];
        if call.is_some_and(|call| call.net_cls) {
            cgroups.push(self.net_cls()?.path());
        }
        Ok(cgroups)
    }

    /// The cgroups of pods, and of processes of the node.
    pub(super) fn all_cgroups(&self) -> [PathBuf; 2] {
        CGROUPS.map(|name| self.root.path.join(name))
    }

    fn net_cls(&self) -> Result<&NetCls> {
        if self.net_cls.get().is_none() {
            let _ = self.net_cls.set(NetCls::new()?);
        }
        self.net_cls.get().context("there is no cgroup of net_cls")
    }

    /// Starts, restarts or stops it, or replaces its maps by larger ones, or by ones of other
    /// flags.
    pub fn step(&mut self, step: SocketLbStep) -> Result<()> {
        match step {
            SocketLbStep::Starts | SocketLbStep::Restarts => {
                if let Some(packets) = &mut self.packets {
                    packets.start()?;
                    self.lb.write_services()?;
                }
                if self.caller.has_socket_lb() {
                    self.lb.start()?;
                }
                Ok(())
            }
            SocketLbStep::Resizes => self.lb.replace_maps(false),
            SocketLbStep::ChangesFlags => self.lb.replace_maps(true),
            SocketLbStep::Stops => {
                self.lb.stop()?;
                self.packets.as_mut().map_or(Ok(()), Neighbour::stop)
            }
        }
    }

    /// Makes it translate sockets of these network namespaces, and of no others; those of pods only
    /// if it serves their sockets. Else it translates packets at these interfaces of theirs.
    pub fn serve(&mut self, node: &NetNs, pods: &[(NetNs, String)]) -> Result<()> {
        let mut namespaces = vec![node];
        if let Some(packets) = &mut self.packets {
            let interfaces: Vec<&str> = pods.iter().map(|(_, interface)| &**interface).collect();
            packets.hook(&interfaces, true)?;
        } else {
            namespaces.extend(pods.iter().map(|(netns, _)| netns));
        }
        self.lb.serve(&namespaces)
    }

    /// Waits until the agent's status shows that its hooks are where this load balancer needs them,
    /// until the kernel judges packets by their sockets if every hook can, and until the agent has
    /// found the maps.
    pub fn await_hooks(&self, agent: &Agent) -> Result<()> {
        wait::until(Duration::from_millis(10), || {
            let Status {
                socket_lb: seen,
                interfaces,
                ..
            } = agent.status()?;
            let is_attached = self.lb.is_attached();
            let unread: Vec<_> = self
                .lb
                .pinned()?
                .into_iter()
                .filter(|(name, id)| !agent.reads(name, *id))
                .collect();
            let found = !seen.programs.is_empty();
            let everywhere = interfaces
                .iter()
                .all(|at| at.attached && at.before.is_empty());
            let judges = agent.judges_by_socket()?;
            let is_as_needed = found == is_attached
                && (!found || seen.in_force)
                && judges == (found && everywhere)
                && unread.is_empty();
            Ok((!is_as_needed).then(|| {
                format!(
                    "attached: {is_attached}; packets are judged by their sockets: {judges}; not looked up: {unread:?}; the \
                     agent's status shows {seen:?} and {interfaces:?}"
                )
            }))
        })
    }
}
