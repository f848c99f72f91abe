//! Pods whose end proves nothing, so that packets to their IPs pass.

use epguard_core::state::Exemption;

/// Why packets pass though a pod has ended, and what would change that.
pub(super) fn exempt(pod: &str, why: Exemption) -> (String, &'static str) {
    let stays = "another pod that shows the IP, in the slice instead of this one";
    match why {
        Exemption::OptedOut => (
            format!("{pod} has ended, but it or its Namespace has opted out (epguard.io/mode: off)"),
            "another value of that annotation",
        ),
        Exemption::StaticIp => (
            format!(
                "{pod} has ended, but its IP outlives it by design: the next pod of its workload has it, too"
            ),
            stays,
        ),
        Exemption::HostNetwork => (format!("{pod} has ended, but its IP is its node's"), stays),
        Exemption::VirtualKubelet => (
            format!("{pod} has ended, but on a virtual kubelet, whose status proves nothing"),
            stays,
        ),
    }
}
