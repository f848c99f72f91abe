//! Which programs are at an interface's hooks, and in which order.

use super::hook::Hook;
use super::netlink::{self, Filter};
use super::{bpf, programs};
use anyhow::{Context as _, Result};

/// The programs and filters around ours at an interface. Entries are like `from: tcx cil_from_netdev`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// Our place in the longer of the two queues; 1 is first.
    pub position: usize,
    /// Programs and filters that run before ours: each could let a packet pass without ours, or take it away.
    pub before: Vec<String>,
    /// Filters that run after the ingress hook and could wipe the intent that it wrote, by accepting the packet.
    pub after: Vec<String>,
}

/// Reads the chain of an interface: TCX programs run first, then the filters of clsact; `ours` are the ids of our
/// programs in the order of [`Hook::ALL`]. None if one of them is not there.
pub fn chain(ifindex: u32, ours: [u32; 2]) -> Result<Option<Chain>> {
    let mut chain = Chain {
        position: 1,
        ..Chain::default()
    };
    for (hook, ours) in Hook::ALL.into_iter().zip(ours) {
        let tcx = tcx(ifindex, hook)?;
        let filters = netlink::filters(ifindex, hook).context("cannot list filters")?;
        let queue = || {
            let filters = filters.iter().map(|filter| filter.program);
            tcx.iter().copied().map(Some).chain(filters)
        };
        let Some(index) = queue().position(|program| program == Some(ours)) else {
            return Ok(None);
        };
        chain.position = chain.position.max(index + 1);
        let line = |text: String| format!("{}: {text}", hook.as_str());
        chain
            .before
            .extend(tcx.iter().take(index).map(|id| line(program(*id))));
        let filters = filters.iter().map(|filter| line(describe(filter)));
        let (before, after): (Vec<_>, Vec<_>) =
            (tcx.len()..).zip(filters).partition(|(place, _)| *place < index);
        chain.before.extend(before.into_iter().map(|(_, text)| text));
        if hook == Hook::Ingress {
            chain.after = (after.into_iter())
                .filter(|(place, _)| *place > index)
                .map(|(_, text)| text)
                .collect();
        }
    }
    Ok(Some(chain))
}

/// Ids of the TCX programs at a hook; empty on a kernel without TCX.
fn tcx(ifindex: u32, hook: Hook) -> Result<Vec<u32>> {
    match bpf::tcx_programs(ifindex, hook.attach_type()) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(vec![]),
        programs => programs.context("cannot list TCX programs"),
    }
}

fn program(id: u32) -> String {
    match programs::name(id).filter(|name| !name.is_empty()) {
        Some(name) => format!("tcx {name}"),
        None => format!("tcx program {id}"),
    }
}

fn describe(filter: &Filter) -> String {
    let name = filter.name.as_deref().unwrap_or_default();
    let text = format!("clsact {} priority {} {name}", filter.kind, filter.priority);
    text.trim_end().to_owned()
}
