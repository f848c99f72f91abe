//! Other programs at the hooks that epguard uses: those of `lab/neighbour`, attached as a CNI
//! attaches its own.

pub(crate) mod maps;
mod object;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use aya::programs::TcAttachType::{Egress, Ingress};
use aya::programs::tc::SchedClassifierLink;

use crate::net::NetNs;
use object::{At, BpfObject};

pub use maps::{Counts, ForbiddenFlow};
pub(crate) use object::{BALANCER_MAPS, load, load_program, program};

/// The programs of a neighbour, and their hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NeighbourKind {
    /// Policy at the egress of pod interfaces; bit 0 of `tc_index` switches it off for a packet.
    Policy,
    /// Policy at the ingress of the sender's interface, and redirection past the egress hook of the
    /// receiver's.
    HostRouting,
    /// Writes into all fields of all packets.
    Scrambler,
    /// Compares packets before and behind epguard's programs.
    Recorder,
    /// At the tunnel: drops packets that enter there without the tunnel's key.
    Tunnel,
    /// Translates packets to cluster IPs, over the maps of the load balancer at sockets.
    #[serde(skip)]
    PacketLb,
}

impl NeighbourKind {
    /// Whether its programs are also at the interfaces that lead out of the node.
    pub const fn is_everywhere(self) -> bool {
        matches!(self, Self::Scrambler | Self::Recorder)
    }

    /// Whether its programs are at the tunnel alone.
    pub const fn is_at_tunnel(self) -> bool {
        matches!(self, Self::Tunnel)
    }
}

/// Where the programs run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Place {
    /// Before epguard's programs.
    Before,
    /// Behind epguard's programs.
    #[default]
    Behind,
    /// Behind epguard's ingress hook and before its egress hook.
    Between,
}

/// Setup of a neighbour.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Its programs.
    pub kind: NeighbourKind,
    /// Their place. Those of [`NeighbourKind::Recorder`] are at both.
    pub place: Place,
    /// Filters of clsact; otherwise TCX.
    pub clsact: bool,
}

impl Plan {
    fn programs(self) -> Vec<(&'static str, At)> {
        let (ingress, egress) = match self.kind {
            NeighbourKind::Policy => ("from_container", "to_container"),
            NeighbourKind::HostRouting => ("from_container_routed", "to_container"),
            NeighbourKind::Scrambler => ("scramble", "scramble"),
            NeighbourKind::PacketLb => ("lb_from_container", "lb_to_container"),
            NeighbourKind::Tunnel => return vec![("from_overlay", At::last(Ingress))],
            NeighbourKind::Recorder => {
                return vec![
                    ("before", At::first(Ingress)),
                    ("after", At::last(Ingress)),
                    ("before", At::first(Egress)),
                    ("after", At::last(Egress)),
                ];
            }
        };
        vec![
            (
                ingress,
                At {
                    hook: Ingress,
                    first: self.place == Place::Before,
                },
            ),
            (
                egress,
                At {
                    hook: Egress,
                    first: self.place != Place::Behind,
                },
            ),
        ]
    }
}

/// A neighbour on one node. Its counts survive restarts; dropping it detaches its programs.
#[derive(Debug)]
pub struct Neighbour {
    plan: Plan,
    node: NetNs,
    pins: PathBuf,
    object: Option<BpfObject>,
    /// Whether it hooks new interfaces.
    is_alive: bool,
    /// By the node's interface and the program's place in the plan. Must be dropped in the node's
    /// network namespace: a filter is identified by the number of its interface.
    links: Links,
}

type Links = BTreeMap<(String, usize), SchedClassifierLink>;

impl Neighbour {
    /// A neighbour that is not started yet; `pins` is a folder in a bpffs for its maps.
    pub fn new(plan: Plan, node: &NetNs, pins: &Path) -> Self {
        Self {
            plan,
            node: node.clone(),
            pins: pins.to_owned(),
            object: None,
            is_alive: false,
            links: Links::new(),
        }
    }

    /// Its programs.
    pub fn kind(&self) -> NeighbourKind {
        self.plan.kind
    }

    /// The node's interfaces with its programs at their ingress.
    pub fn at_ingress(&self) -> BTreeSet<&str> {
        let programs = self.plan.programs();
        let mut interfaces = BTreeSet::new();
        for (interface, place) in self.links.keys() {
            let (_, at) = programs[*place];
            if at.hook == Ingress {
                interfaces.insert(&**interface);
            }
        }
        interfaces
    }

    /// Whether its programs are attached, even after its process was killed.
    pub fn is_attached(&self) -> bool {
        self.object.is_some()
    }

    /// Loads its programs. If older ones are attached, the new ones replace them in their links, as
    /// a CNI that restarts does with its pinned links. Needs root.
    pub fn start(&mut self) -> Result<()> {
        let mut object = match self.plan.kind {
            NeighbourKind::PacketLb => BpfObject::load(
                &self.pins,
                &BALANCER_MAPS,
                &["lb_from_container", "lb_to_container"],
            )?,
            _ => BpfObject::load(&self.pins, &object::MAPS, &object::PROGRAMS)?,
        };
        let programs = self.plan.programs();
        let links = std::mem::take(&mut self.links);
        self.links = self.node.run(|| {
            let mut taken = Links::new();
            for ((interface, place), link) in links {
                let (name, _) = programs[place];
                taken.insert((interface, place), object.take_over(name, link)?);
            }
            anyhow::Ok(taken)
        })??;
        self.object = Some(object);
        self.is_alive = true;
        Ok(())
    }

    /// Ends its process: its programs stay attached, and new interfaces get none.
    pub fn kill(&mut self) {
        self.is_alive = false;
    }

    /// Detaches everything.
    pub fn stop(&mut self) -> Result<()> {
        self.is_alive = false;
        let links = std::mem::take(&mut self.links);
        let Some(object) = self.object.take() else {
            return Ok(());
        };
        self.node.run(|| {
            let hooked: Vec<String> = links.into_keys().map(|(interface, _)| interface).collect();
            hooked
                .iter()
                .try_for_each(|interface| object.await_detached(interface))
        })?
    }

    /// Hooks the node's interfaces that have none of its programs yet; drops the entries of those
    /// that are gone. Programs that belong before epguard's are attached once `epguard_is_there`,
    /// as the last one to come is the first one, and those of [`NeighbourKind::Recorder`] all.
    pub fn hook(&mut self, interfaces: &[&str], epguard_is_there: bool) -> Result<()> {
        let links = &mut self.links;
        let plan = self.plan;
        let is_alive = self.is_alive;
        let object = self.object.as_mut();
        self.node.run(|| {
            links.retain(|(interface, _), _| interfaces.contains(&&**interface));
            let Some(object) = object else { return Ok(()) };
            if !is_alive {
                return Ok(());
            }
            for (index, (name, at)) in plan.programs().into_iter().enumerate() {
                let waits_for_epguard = at.first || plan.kind == NeighbourKind::Recorder;
                if waits_for_epguard && !epguard_is_there {
                    continue;
                }
                for interface in interfaces {
                    if let Entry::Vacant(missing) = links.entry(((*interface).to_owned(), index)) {
                        missing.insert(object.attach(name, interface, at, plan.clsact)?);
                    }
                }
            }
            Ok(())
        })?
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
