//! Which programs and filters are at the hooks of an interface, in which order.

use super::bpf::{self, is_one_of};
use super::clsact::{TcFilter, filters};
use super::hook::Hook;
use anyhow::{Context as _, Result};
use nix::libc;

/// The programs and filters around ours at an interface. Entries are like
/// `from: tcx cil_from_netdev`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// Our place in the longer of the two queues; 1 is first.
    pub position: usize,
    /// Programs and filters that run before ours: each could let a packet pass without ours, or
    /// take it away.
    pub before: Vec<String>,
    /// Programs and filters of others at the ingress hook, before or after ours.
    pub at_ingress: Vec<String>,
    /// Whether our ingress hook is attached.
    pub ingress: bool,
    /// Why it is not, or why it is still, against
    /// [`Datapath::want_ingress`](super::Datapath::want_ingress).
    pub ingress_error: Option<String>,
}

impl Chain {
    /// With what became of the ingress hook.
    pub(super) fn with_ingress(self, followed: Result<()>) -> Self {
        Self {
            ingress_error: followed.err().map(|error| format!("{error:#}")),
            ..self
        }
    }
}

/// A program or filter at a hook.
enum Queued {
    Tcx(u32),
    Filter(TcFilter),
}

impl Queued {
    /// Id of the program; none of a filter without one.
    const fn program(&self) -> Option<u32> {
        match self {
            Self::Tcx(id) => Some(*id),
            Self::Filter(filter) => filter.program,
        }
    }

    /// As reports name it. Without the id of a program, which differs from node to node.
    fn describe(&self) -> String {
        match self {
            Self::Tcx(id) => match bpf::program_name(*id) {
                Ok(name) if !name.is_empty() => format!("tcx {name}"),
                _ => format!("tcx program {id}"),
            },
            Self::Filter(filter) => describe_filter(filter),
        }
    }
}

/// Reads the chain of an interface: TCX programs run first, then the filters of clsact; `ours` are
/// the ids of our programs in the order of [`Hook::ALL`]. None without the egress hook.
pub fn read_chain(ifindex: u32, ours: [u32; 2]) -> Result<Option<Chain>> {
    let mut chain = Chain {
        position: 1,
        ..Chain::default()
    };
    for (hook, ours) in Hook::ALL.into_iter().zip(ours) {
        let queue = queue(ifindex, hook)?;
        let place = queue
            .iter()
            .position(|queued| queued.program() == Some(ours));
        match hook {
            Hook::Ingress => {
                chain.at_ingress = others(&queue, ours);
                chain.ingress = place.is_some();
            }
            Hook::Egress if place.is_none() => return Ok(None),
            Hook::Egress => {}
        }
        if let Some(place) = place {
            chain.position = chain.position.max(place + 1);
            let before = queue.iter().take(place);
            chain
                .before
                .extend(before.map(|queued| format!("{}: {}", hook.as_str(), queued.describe())));
        }
    }
    Ok(Some(chain))
}

/// Programs and filters of others at an interface's ingress hook: each may take a packet in the
/// name of an endpoint for one of the endpoint's. `ours`: the id of our program for this hook.
pub fn others_at_ingress(ifindex: u32, ours: u32) -> Result<Vec<String>> {
    Ok(others(&queue(ifindex, Hook::Ingress)?, ours))
}

fn others(queue: &[Queued], ours: u32) -> Vec<String> {
    let others = queue.iter().filter(|queued| queued.program() != Some(ours));
    others.map(Queued::describe).collect()
}

/// Programs and filters at a hook, in the order in which they run.
fn queue(ifindex: u32, hook: Hook) -> Result<Vec<Queued>> {
    let tcx = tcx(ifindex, hook)?.into_iter().map(Queued::Tcx);
    let filters = filters(ifindex, hook).context("cannot list filters")?;
    Ok(tcx.chain(filters.into_iter().map(Queued::Filter)).collect())
}

/// Ids of the TCX programs at a hook; empty on a kernel without TCX.
fn tcx(ifindex: u32, hook: Hook) -> Result<Vec<u32>> {
    match bpf::tcx_programs(ifindex, hook.attach_type()) {
        Err(error) if is_one_of(&error, &[libc::EINVAL]) => Ok(vec![]),
        programs => programs.context("cannot list TCX programs"),
    }
}

fn describe_filter(filter: &TcFilter) -> String {
    let name = filter.name.as_deref().unwrap_or_default();
    let text = format!("clsact {} priority {} {name}", filter.kind, filter.priority);
    text.trim_end().to_owned()
}
