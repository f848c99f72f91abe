//! Other programs at the hooks that epguard uses: those of `lab/neighbour`, attached as a CNI attaches its own.

mod object;
pub(crate) mod pinned;
mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use aya::programs::tc::SchedClassifierLink;

use crate::net::NetNs;
use object::{Object, Place};

pub(crate) use object::{load, program};
pub use tables::{Flow, Verdicts};

/// The programs of a neighbour, and their hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Kind {
    /// Policy at the egress of pod interfaces; bit 0 of `tc_index` switches it off for a packet.
    Policy,
    /// As `Policy`, behind a tail call.
    PolicyBehindTailCall,
    /// Policy that any bit of `tc_index` switches off.
    Greedy,
    /// Policy that reads no field of the packet's metadata.
    Harmless,
    /// Policy at the ingress of the sender's interface, and redirection past the egress hook of the receiver's.
    HostRouting,
    /// A program in each pod's own network namespace that counts the values of `tc_index` that arrive.
    Recorder,
}

impl Kind {
    /// Programs on the node's side, with the hook of pod interfaces that each uses.
    fn programs(self, clears: bool) -> Vec<(&'static str, Place)> {
        let egress = match self {
            Self::Policy | Self::HostRouting => Some("to_container"),
            Self::PolicyBehindTailCall => Some("a"),
            Self::Greedy => Some("to_container_greedy"),
            Self::Harmless => Some("to_container_plain"),
            Self::Recorder => None,
        };
        let ingress = match self {
            Self::HostRouting => Some("from_container_routed"),
            _ => clears.then_some("from_container"),
        };
        let egress = egress.map(|name| (name, Place::Egress));
        ingress
            .map(|name| (name, Place::Ingress))
            .into_iter()
            .chain(egress)
            .collect()
    }

    /// The carrier that the agent must choose beside this neighbour, as its status names it; none: any.
    pub fn harmless_carriers(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Policy | Self::PolicyBehindTailCall | Self::HostRouting => Some(&["tc-index-high"]),
            Self::Greedy => Some(&["none"]),
            Self::Harmless | Self::Recorder => None,
        }
    }
}

/// Setup of a neighbour.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its programs.
    pub kind: Kind,
    /// Whether it also clears `tc_classid` and accepts at the ingress of pod interfaces.
    pub clears: bool,
    /// Priority of its filters of clsact; none: TCX, behind all other programs.
    pub clsact_priority: Option<u16>,
}

/// A neighbour on one node. Its counts survive restarts; dropping it detaches its programs.
#[derive(Debug)]
pub struct Neighbour {
    plan: Plan,
    node: NetNs,
    pins: PathBuf,
    object: Option<Object>,
    /// Whether it hooks new interfaces.
    is_alive: bool,
    /// By the node's interface to the pod. Must be dropped in the node's network namespace: a filter is identified by the
    /// number of its interface.
    links: Links,
}

impl Neighbour {
    /// A neighbour that is not started yet; `pins` is a folder in a bpffs for its maps.
    pub fn new(plan: Plan, node: &NetNs, pins: &Path) -> Self {
        Self {
            plan,
            node: node.clone(),
            pins: pins.to_owned(),
            object: None,
            is_alive: false,
            links: BTreeMap::new(),
        }
    }

    /// Its programs.
    pub fn kind(&self) -> Kind {
        self.plan.kind
    }

    /// Whether its programs are attached, even after its process was killed.
    pub fn is_attached(&self) -> bool {
        self.object.is_some()
    }

    /// Loads its programs. If older ones are attached, the new ones replace them in their links, as a CNI that restarts does
    /// with its pinned links. Needs root.
    pub fn start(&mut self) -> Result<()> {
        let mut object = Object::load(&self.pins)?;
        let links = std::mem::take(&mut self.links);
        self.links = self.node.run(|| take_over(&mut object, links))??;
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
            let interfaces: Vec<String> = links.keys().cloned().collect();
            drop(links);
            interfaces
                .iter()
                .try_for_each(|interface| object.await_detached(interface))
        })?
    }

    /// Hooks the node's pods that have none of its programs yet, given the node's interface and the network namespace of
    /// each. Drops the entries of removed pods.
    pub fn hook(&mut self, pods: &[(&str, &NetNs)]) -> Result<()> {
        let is_there = |link: &String| pods.iter().any(|(name, _)| name == link);
        self.node.run(|| self.links.retain(|link, _| is_there(link)))?;
        let Some(object) = self.object.as_mut().filter(|_| self.is_alive) else {
            return Ok(());
        };
        for (link, pod) in pods {
            if self.links.contains_key(*link) {
                continue;
            }
            let plan = &self.plan;
            let attached = if plan.kind == Kind::Recorder {
                let attach = || object.attach(object::RECORDER, "eth0", Place::Ingress, None);
                vec![(object::RECORDER, pod.run(attach)??)]
            } else {
                let programs = plan.kind.programs(plan.clears).into_iter();
                let mut attach = |(name, place)| {
                    let link = object.attach(name, link, place, plan.clsact_priority)?;
                    Ok((name, link))
                };
                self.node
                    .run(|| programs.map(&mut attach).collect::<Result<Vec<_>>>())??
            };
            self.links.insert((*link).to_owned(), attached);
        }
        Ok(())
    }

    /// Makes the policy forbid these flows and no others.
    pub fn forbid(&self, flows: &[Flow]) -> Result<()> {
        tables::forbid(&self.pins, flows)
    }

    /// Writes the node's interface of each endpoint, for [`Kind::HostRouting`].
    pub fn route(&self, endpoints: &BTreeMap<std::net::SocketAddr, u32>) -> Result<()> {
        tables::route(&self.pins, endpoints)
    }

    /// Packets by verdict of the policy, since the beginning. All zero before the first start.
    pub fn verdicts(&self) -> Result<Verdicts> {
        tables::verdicts(&self.pins)
    }

    /// Packets that arrived in pods, by their `tc_index`. Only of [`Kind::Recorder`].
    pub fn arrived(&self) -> Result<BTreeMap<u32, u64>> {
        tables::arrived(&self.pins)
    }
}

type Links = BTreeMap<String, Vec<(&'static str, SchedClassifierLink)>>;

fn take_over(object: &mut Object, links: Links) -> Result<Links> {
    let mut taken = Links::new();
    for (interface, programs) in links {
        let mut own = Vec::new();
        for (name, link) in programs {
            own.push((name, object.take_over(name, link)?));
        }
        taken.insert(interface, own);
    }
    Ok(taken)
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
