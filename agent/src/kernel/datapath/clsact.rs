//! Filters of one interface's clsact qdisc, for kernels without TCX.
//!
//! A filter of ours is known by its priority, its handle and its name together, so that it is found again after a
//! crash. The pin directory notes which qdiscs are ours; one with filters of other programs stays.

use super::failure::is_one_of;
use super::hook::Hook;
use super::netlink::{self, Filter};
use super::pins::Pins;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;

/// Our filters run before all others: the lowest number, and among filters of one priority the youngest runs first.
const PRIORITY: u16 = 1;

/// Handle of our filters: `epg` and 1, which no other program uses by chance.
const HANDLE: u32 = 0x6570_6701;

/// Makes the qdisc and the filter, or replaces the program of the existing filter.
pub fn attach(pins: &Pins, ifindex: u32, hook: Hook, program: BorrowedFd<'_>) -> Result<()> {
    add_qdisc(pins, ifindex)?;
    let taken = netlink::filters(ifindex, hook)
        .context("cannot list filters")?
        .into_iter()
        .find(|filter| (filter.priority, filter.handle) == (PRIORITY, HANDLE));
    if let Some(foreign) = taken.as_ref().filter(|filter| !is_ours(filter, hook)) {
        anyhow::bail!(
            "the clsact filter with priority {PRIORITY} and handle {HANDLE:#x} belongs to another program ({foreign:?}): remove it"
        );
    }
    netlink::put_filter(ifindex, hook, &ours(hook), program, taken.is_none())
        .with_context(|| format!("cannot put a BPF filter at clsact priority {PRIORITY}; one of another kind or protocol there is in the way"))
}

/// Removes our filters, and the qdisc if it is ours and empty; false if neither was there.
pub fn detach(pins: &Pins, ifindex: u32) -> Result<bool> {
    let (mut removed, mut others) = (false, false);
    for hook in Hook::ALL {
        for filter in netlink::filters(ifindex, hook).context("cannot list filters")? {
            if is_ours(&filter, hook) {
                absent(netlink::remove_filter(ifindex, hook, &filter)).context("cannot remove a filter")?;
                removed = true;
            } else {
                others = true;
            }
        }
    }
    let made = pins.made_clsact(ifindex);
    if made.exists() {
        if !others {
            absent(netlink::remove_clsact(ifindex)).context("cannot remove the clsact qdisc")?;
        }
        fs::remove_dir(&made).with_context(|| format!("cannot remove {}", made.display()))?;
        removed = true;
    }
    Ok(removed)
}

/// Adds the qdisc, then notes it as ours: one left behind is better than a foreign one removed.
fn add_qdisc(pins: &Pins, ifindex: u32) -> Result<()> {
    match netlink::add_clsact(ifindex) {
        Ok(()) => {
            let made = pins.made_clsact(ifindex);
            match fs::create_dir(&made) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    Err(error).with_context(|| format!("cannot make {}", made.display()))
                }
                _ => Ok(()),
            }
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let there = netlink::has_clsact(ifindex).context("cannot list qdiscs")?;
            ensure!(
                there,
                "an ingress qdisc is where clsact has to be: replace it (tc qdisc replace dev NAME clsact)"
            );
            Ok(())
        }
        Err(error) => {
            Err(error).context("cannot add a clsact qdisc (does the kernel have CONFIG_NET_SCH_INGRESS?)")
        }
    }
}

fn ours(hook: Hook) -> Filter {
    Filter {
        priority: PRIORITY,
        handle: HANDLE,
        kind: "bpf".to_owned(),
        name: Some(hook.program().to_owned()),
        program: None,
    }
}

/// Whether a filter is ours, of this process or an earlier one.
pub fn is_ours(filter: &Filter, hook: Hook) -> bool {
    Filter { program: None, ..filter.clone() } == ours(hook)
}

/// Accepts the removal of something that is gone already, or went with its interface.
fn absent(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if is_one_of(&error, &[libc::ENOENT, libc::ENODEV, libc::EINVAL]) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_ours_by_priority_handle_kind_and_name_with_every_program() {
        let mut filter = Filter { program: Some(7), ..ours(Hook::Ingress) };
        assert!(is_ours(&filter, Hook::Ingress));
        assert!(!is_ours(&filter, Hook::Egress));
        filter.priority = 2;
        assert!(!is_ours(&filter, Hook::Ingress));
    }
}
