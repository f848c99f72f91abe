//! Interfaces that come, go, move and change their names under a running agent: hooked at once, without a wrong denial.

mod holder;
mod hooks;

use std::fmt::Write as _;

use super::lives::pelting;
use crate::stage::until;
use aya::programs::{SchedClassifier, TcAttachType};
use epguard_lab::net::NetNs;
use epguard_lab::scenario::stage::Stage;

/// The pods that die on X, one after the other.
const DYING: usize = 10;

/// `far` calls from another node; no API object shows the pod that gets X after the dead ones.
fn stage() -> Stage {
    let mut pods = String::new();
    for number in 0..DYING {
        let _ = writeln!(pods, "  A{number}: {{is: old/a-{number}, ip: X}}");
    }
    crate::stage::stage(&format!(
        "agent: {{mode: enforce}}\npods:\n{pods}  far: {{is: shop/far, node: node-b}}\nsteps:\n  - pods: [far starts]\n"
    ))
}

/// The agent's node.
fn node(stage: &Stage) -> NetNs {
    crate::stage::netns(stage, "node-a").clone()
}

/// Whether both hooks are there; false without such an interface.
fn is_hooked(netns: &NetNs, link: &str) -> bool {
    let at = |side| SchedClassifier::query_tcx(link, side).is_ok_and(|(_, programs)| !programs.is_empty());
    netns.run(|| [TcAttachType::Ingress, TcAttachType::Egress].into_iter().all(at)).unwrap()
}

/// Waits until both hooks are seen.
fn await_hooks(netns: &NetNs, link: &str) {
    until(&format!("{link} is hooked"), || is_hooked(netns, link));
}
