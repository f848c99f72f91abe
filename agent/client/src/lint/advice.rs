//! Advice. It shows where to look, and one command changes something: it deletes a pod that has
//! ended for good.

use super::cluster::Cluster;
use super::finding::{ENDPOINTSLICE, MIRRORING};
use crate::shared::calls::MANAGED_BY;
use epguard_core::facts::{Labels, ListedSlice, ObjectName, Pod};

/// The endpoint's pod is alive and has the address.
pub const UNJUDGED: &str = "nothing has to change: epguard passes its packets";

/// The writer of a check's slices.
const CHECK: &str = MANAGED_BY.1;

/// What ends the findings about a check's own objects.
const OF_A_CHECK: &str =
    "made by `kubectl epguard check`: if none runs now, `kubectl epguard check --clean` removes it";

/// Why the `EndpointSlice` controller lists a finished pod, and what ends that.
pub fn why_listed(cluster: &Cluster<'_>, pod: &Pod) -> String {
    let ObjectName { namespace, name } = &pod.name;
    let of_a_check: Labels = [MANAGED_BY].into_iter().collect();
    if !pod.labels.are_cut() && pod.labels.have_all(&of_a_check) {
        return OF_A_CHECK.to_owned();
    }
    if pod.deleting {
        return format!(
            "the pod is being deleted; what that waits for: kubectl -n {namespace} get pod {name} -o jsonpath='{{.metadata.finalizers}}'"
        );
    }
    if pod.mirror || !cluster.is_proven_dead(pod) {
        let node = pod.node.as_deref().unwrap_or_default();
        return format!(
            "the end of the pod is not proven, so it may still run: see whether its node works: kubectl get node {node}"
        );
    }
    // The command may be run long after the check, when a running pod has this name.
    format!(
        "delete the finished pod (ttlSecondsAfterFinished of a Job does it), once its log and exit code are not needed: \
         kubectl -n {namespace} delete pods --field-selector \
         metadata.name={name},status.phase!=Running,status.phase!=Pending,status.phase!=Unknown"
    )
}

/// Who can correct the slice, and how that writer is found. It changes nothing: whether an endpoint
/// is in service is known to its writer alone.
pub fn who_corrects(listed: &ListedSlice) -> String {
    let slice = &listed.facts;
    // An Endpoints object has its Service's name.
    let service = slice.service.as_ref().unwrap_or(&slice.name);
    match listed.managed_by.as_deref() {
        Some(ENDPOINTSLICE) => format!(
            "{ENDPOINTSLICE} corrects it once it works: see whether kube-controller-manager runs, and its log about {service}"
        ),
        Some(MIRRORING) => format!(
            "only the writer of the Endpoints object {service}, of which this is a copy, can correct it; who that is: {}",
            show_writers("endpoints", service)
        ),
        Some(CHECK) => OF_A_CHECK.to_owned(),
        Some(other) => {
            format!(
                "only {other}, which writes this slice, can correct it: see its log about {service}"
            )
        }
        None => format!(
            "only its writer can correct it; who that is: {}",
            show_writers("endpointslice", &slice.name)
        ),
    }
}

/// The command that shows who wrote which field of an object, and when.
pub fn show_writers(kind: &str, object: &ObjectName) -> String {
    let ObjectName { namespace, name } = object;
    format!("kubectl -n {namespace} get {kind} {name} -o yaml --show-managed-fields")
}
