//! A node with a running agent, and its kernel's data about hooks and sockets.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use aya::programs::{SchedClassifier, TcAttachType};
use epguard_common::{Outcome, Reason};
use epguard_lab::net::{Cni, NetNs};
use epguard_lab::scenario::stage::Stage;

/// The pods that die on X, one after the other.
pub(crate) const DYING: usize = 10;

/// `far` calls from another node; no API object shows the pod that gets X after the dead ones.
pub(crate) fn stage(cni: Cni) -> Stage {
    let mut pods = String::new();
    for number in 0..DYING {
        let _ = writeln!(pods, "  A{number}: {{is: old/a-{number}, ip: X}}");
    }
    crate::stage::stage(&format!(
        "runs: {{cni: [{cni}]}}\nagent: {{mode: enforce}}\npods:\n{pods}  far: {{is: shop/far, node: node-b}}\nsteps:\n  - pods: [far starts]\n"
    ))
}

/// The agent's node.
pub(crate) fn node(stage: &Stage) -> NetNs {
    crate::stage::netns(stage, "node-a").clone()
}

/// Whether both hooks are there; false without such an interface.
pub(crate) fn is_hooked(netns: &NetNs, link: &str) -> bool {
    netns.run(|| has_hooks(link)).unwrap()
}

/// The time from `event` until both hooks are seen.
pub(crate) fn hooked_after(netns: &NetNs, link: &str, event: Instant) -> Duration {
    let wait = || {
        while !has_hooks(link) {
            assert!(event.elapsed() < Duration::from_mins(1), "{link} is not hooked");
            std::thread::sleep(Duration::from_micros(500));
        }
        event.elapsed()
    };
    netns.run(wait).unwrap()
}

/// In the calling thread's network namespace.
fn has_hooks(link: &str) -> bool {
    let at = |side| SchedClassifier::query_tcx(link, side).is_ok_and(|(_, programs)| !programs.is_empty());
    [TcAttachType::Ingress, TcAttachType::Egress].into_iter().all(at)
}

/// Prints the figures.
pub(crate) fn report(what: &str, mut figures: Vec<Duration>) {
    figures.sort();
    let (median, worst) = (figures[figures.len() / 2], figures[figures.len() - 1]);
    println!(
        "{what}: hooked after {:.1} ms (median of {}), {:.1} ms at worst",
        median.as_secs_f64() * 1e3,
        figures.len(),
        worst.as_secs_f64() * 1e3
    );
}

/// Packets denied as `terminated` so far.
pub(crate) fn dropped(stage: &Stage) -> u64 {
    stage.counters().unwrap().of(Reason::Terminated, Outcome::Dropped)
}
