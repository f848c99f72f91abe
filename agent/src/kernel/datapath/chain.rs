//! Which programs are at an interface's hooks, and in which order.

use super::bpf::{self, is_one_of};
use super::clsact::{Filter, filters};
use super::hook::Hook;
use anyhow::{Context as _, Result};

/// The programs and filters around ours at an interface. Entries are like `from: tcx cil_from_netdev`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// Our place in the longer of the two queues; 1 is first.
    pub position: usize,
    /// Programs and filters that run before ours: each could let a packet pass without ours, or take it away.
    pub before: Vec<String>,
}

/// Reads the chain of an interface: TCX programs run first, then the filters of clsact; `ours` are the ids of our
/// programs in the order of [`Hook::ALL`]. None if one of them is not there.
pub fn chain(ifindex: u32, ours: [u32; 2]) -> Result<Option<Chain>> {
    let mut chain = Chain { position: 1, ..Chain::default() };
    for (hook, ours) in Hook::ALL.into_iter().zip(ours) {
        let tcx = tcx(ifindex, hook)?;
        let filters = self::filters(ifindex, hook).context("cannot list filters")?;
        let programs = filters.iter().map(|filter| filter.program);
        let mut queue = tcx.iter().copied().map(Some).chain(programs);
        let Some(index) = queue.position(|program| program == Some(ours)) else {
            return Ok(None);
        };
        chain.position = chain.position.max(index + 1);
        for place in 0..index {
            let text = match tcx.get(place) {
                // Without its id, which differs from node to node.
                Some(id) => match bpf::program_name(*id) {
                    Ok(name) if !name.is_empty() => format!("tcx {name}"),
                    _ => format!("tcx program {id}"),
                },
                None => describe_filter(&filters[place - tcx.len()]),
            };
            chain.before.push(format!("{}: {text}", hook.as_str()));
        }
    }
    Ok(Some(chain))
}

/// Ids of the TCX programs at a hook; empty on a kernel without TCX.
fn tcx(ifindex: u32, hook: Hook) -> Result<Vec<u32>> {
    match bpf::tcx_programs(ifindex, hook.attach_type()) {
        Err(error) if is_one_of(&error, &[libc::EINVAL]) => Ok(vec![]),
        programs => programs.context("cannot list TCX programs"),
    }
}

fn describe_filter(filter: &Filter) -> String {
    let name = filter.name.as_deref().unwrap_or_default();
    let text = format!("clsact {} priority {} {name}", filter.kind, filter.priority);
    text.trim_end().to_owned()
}
