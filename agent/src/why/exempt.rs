//! Pods whose end proves nothing, so that packets to their IPs pass.

use super::pass::{Pass, pass};
use crate::history::PodView;

/// In [`PodView::exempt`]: the pod or its Namespace has `epguard.io/mode: off`.
pub(super) const OPTED_OUT: &str = "opted-out";

/// Why packets pass though this pod has ended; none if its end is a proof.
pub(super) fn exempt(pod: &PodView) -> Option<Pass> {
    let name = &pod.name;
    let stays = "another pod that shows the IP, in the slice instead of this one";
    Some(match pod.exempt.as_deref()? {
        OPTED_OUT => pass(
            format!("{name} has ended, but it or its Namespace has opted out (epguard.io/mode: off)"),
            "another value of that annotation",
        ),
        "static-ip" => pass(
            format!(
                "{name} has ended, but its IP outlives it by design: the next pod of its workload has it, too"
            ),
            stays,
        ),
        "host-network" => pass(format!("{name} has ended, but its IP is its node's"), stays),
        _ => pass(
            format!("{name} has ended, but on a virtual kubelet, whose word proves nothing"),
            stays,
        ),
    })
}
