//! What an agent costs in a cluster of 10,000 and of 100,000 pods, beside its budgets.
//!
//! The real agent beside the lab's API server, which counts requests and octets. Pods are as large as a recorded kubelet's. The
//! API server runs at a low priority: on a node it would be on another machine. `SCALE=10,000` takes one size alone.

mod agent;
mod background;
mod cgroup;
mod cluster;
mod events;
mod measure;
mod objects;
mod requests;
mod rolling;
mod size;

use epguard_lab::figures::Table;
use measure::{Effort, measure};
use size::{LARGE, SMALL};
use std::env;
use tokio::runtime::Builder;

/// A table for each size.
pub(crate) fn tables(quick: bool) -> Vec<Table> {
    at_low_priority();
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let _context = runtime.enter();
    let wanted = env::var("SCALE").unwrap_or_default();
    let effort = if quick { Effort::QUICK } else { Effort::FULL };
    let sizes = [SMALL, LARGE].into_iter().filter(|size| size.name.starts_with(&wanted));
    sizes.map(|size| measure(size, &effort)).collect()
}

/// For this process with the API server, and not for the agent.
fn at_low_priority() {
    // SAFETY: no pointers. It has no other threads yet; those inherit the priority.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
}
