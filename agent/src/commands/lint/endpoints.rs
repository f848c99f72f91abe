//! Checks each endpoint of each slice: does the pod that it names have the address?

use super::cluster::Cluster;
use super::controller::{self, ENDPOINTSLICE};
use super::finding::{Finding, Problem, Severity};
use super::pods::pods;
use epguard_common::{Uid, UidState};
use epguard_core::facts::{ListedEndpoint, ListedSlice, Pod, PodRef, named};

/// The problem of an endpoint; at most one, the worst.
#[must_use]
pub fn check(cluster: &Cluster<'_>, slice: &ListedSlice, endpoint: &ListedEndpoint) -> Option<Finding> {
    let case = Case { cluster, slice, endpoint };
    let Some(target) = &endpoint.target else {
        return case.anonymous();
    };
    let Some(uid) = target.uid else {
        return Some(case.without_uid(target));
    };
    match cluster.pod(uid) {
        None => Some(case.unknown(target, uid)),
        Some(pod) if cluster.is_spared(pod) => None,
        Some(pod) if pod.uid_state != UidState::Live => Some(case.terminal(pod)),
        Some(pod) if !pod.addresses().any(|ip| ip == endpoint.ip) => Some(case.elsewhere(pod)),
        Some(pod) => case.outside(pod),
    }
}

struct Case<'a> {
    cluster: &'a Cluster<'a>,
    slice: &'a ListedSlice,
    endpoint: &'a ListedEndpoint,
}

impl<'a> Case<'a> {
    /// Checks an endpoint without targetRef. Selector-less Services may list addresses that are no pod's; only those of
    /// pods have to name their pod.
    fn anonymous(&self) -> Option<Finding> {
        let ip = self.endpoint.ip;
        let holders: Vec<&Pod> = self.cluster.holders(ip).collect();
        if !holders.is_empty() {
            let what = format!("belongs to {}, but the endpoint names no pod", pods(holders));
            let fix = self.correct("set its targetRef with the pod's UID");
            return Some(self.finding(Problem::MissingTargetRef, Severity::Warning, what, fix));
        }
        let finished = self.cluster.showing(ip).filter(|pod| !pod.host_network);
        let finished: Vec<&Pod> = finished.filter(|pod| !self.cluster.is_spared(pod)).collect();
        if finished.is_empty() && !self.cluster.is_in_a_range(ip) {
            return None;
        }
        let what = match &finished[..] {
            [] => "is in a node's pod range, and no pod has it".to_owned(),
            _ => format!("was that of {}, finished; the endpoint names no pod", pods(finished)),
        };
        let fix = self.correct("remove the endpoint");
        Some(self.finding(Problem::NobodysAddress, self.severity(), what, fix))
    }

    fn without_uid(&self, target: &PodRef) -> Finding {
        let pod = self.cluster.named(&target.name);
        let (severity, state) = match pod {
            None => (self.severity(), "which does not exist"),
            Some(pod) if pod.uid_state != UidState::Live => (self.severity(), "which has finished"),
            Some(pod) if !pod.addresses().any(|ip| ip == self.endpoint.ip) => {
                (self.severity(), "which has another address")
            }
            Some(_) => (Severity::Warning, "which has the address now"),
        };
        let what = format!(
            "names pod {} without a UID, {state}; after a replacement it is unclear which pod is meant{}",
            named(&target.name),
            self.and_now(pod)
        );
        let fix = self.correct("set targetRef.uid, or remove the endpoint");
        self.finding(Problem::MissingUid, severity, what, fix)
    }

    fn unknown(&self, target: &PodRef, uid: Uid) -> Finding {
        let name = named(&target.name);
        let fix = self.correct("remove the endpoint, or name the pod that is meant");
        if let Some(pod) = self.cluster.named(&target.name) {
            let now = self.and_now(Some(pod));
            let what = format!("means UID {uid}, but pod {name} is UID {}{now}", pod.uid);
            self.finding(Problem::ForeignUid, self.astray(), what, fix)
        } else {
            let now = self.and_now(None);
            let what = format!("names pod {name} ({uid}), which does not exist{now}");
            self.finding(Problem::GonePod, self.severity(), what, fix)
        }
    }

    fn terminal(&self, pod: &Pod) -> Finding {
        let proof = match pod.uid_state {
            _ if pod.host_network => "has finished, and the address is its node's",
            UidState::Dead => "has finished and released the address",
            _ => "has finished",
        };
        let ready = if self.endpoint.ready { "ready" } else { "not ready" };
        let what =
            format!("pod {} {proof}, still listed as {ready}{}", named(&pod.name), self.and_now(Some(pod)));
        let (namespace, name) = &pod.name;
        let fix = if self.slice.managed_by.as_deref() == Some(ENDPOINTSLICE) {
            format!(
                "delete the finished pod: kubectl -n {namespace} delete pod {name}; for Jobs set \
                 ttlSecondsAfterFinished, or keep their pods out of the Service's selector"
            )
        } else {
            self.correct("remove the endpoint")
        };
        self.finding(Problem::TerminalPod, self.severity(), what, fix)
    }

    fn elsewhere(&self, pod: &Pod) -> Finding {
        let shown: Vec<String> = pod.addresses().map(|ip| ip.to_string()).collect();
        let shown = match &shown[..] {
            [] => "no address".to_owned(),
            shown => shown.join(", "),
        };
        let name = named(&pod.name);
        let fix = self.correct("list the pod's present address, or remove the endpoint");
        let mut holders = self.cluster.holders(self.endpoint.ip).peekable();
        if holders.peek().is_some() {
            let what = format!("belongs to {}; pod {name}, which is meant, has {shown}", pods(holders));
            self.finding(Problem::AnothersAddress, self.astray(), what, fix)
        } else {
            let what = format!("no pod has it; pod {name}, which is meant, has {shown}");
            self.finding(Problem::NobodysAddress, self.severity(), what, fix)
        }
    }

    fn outside(&self, pod: &Pod) -> Option<Finding> {
        let ip = self.endpoint.ip;
        let ranges = self.cluster.ranges(pod, ip);
        let expected = !pod.host_network && pod.ips.contains(&ip) && self.cluster.ranges_are_used;
        if !expected || ranges.is_empty() || ranges.iter().any(|range| range.contains(ip)) {
            return None;
        }
        let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
        let what = format!(
            "pod {} has it, outside of {} of its node {}",
            named(&pod.name),
            ranges.join(", "),
            pod.node.as_deref().unwrap_or_default()
        );
        let fix = "see which IPAM the node's CNI configuration names: other nodes' pods get addresses from their own range";
        Some(self.finding(Problem::OutsidePodCidr, Severity::Warning, what, fix.to_owned()))
    }

    /// The severity for ready and other endpoints: traffic goes to ready endpoints only.
    fn severity(&self) -> Severity {
        if self.endpoint.ready { self.astray() } else { Severity::Warning }
    }

    /// The severity for traffic that comes: a pod of the Service's own is right for it.
    fn astray(&self) -> Severity {
        if self.reaches_own() { Severity::Warning } else { Severity::Error }
    }

    fn reaches_own(&self) -> bool {
        let service = self.slice.service.as_ref();
        service.is_some_and(|service| self.cluster.has_own(service, self.endpoint.ip))
    }

    /// The pods that are hit instead of the pod that is meant, as text.
    fn and_now(&self, meant: Option<&'a Pod>) -> String {
        let others = self.cluster.holders(self.endpoint.ip);
        let mut others = others.filter(|pod| meant.is_none_or(|meant| meant.uid != pod.uid)).peekable();
        match others.peek() {
            Some(_) if self.reaches_own() => {
                format!("; the address belongs to {} now, the Service's own", pods(others))
            }
            Some(_) => format!("; the address belongs to {} now", pods(others)),
            None => String::new(),
        }
    }

    fn correct(&self, how: &str) -> String {
        controller::correct(self.slice, how)
    }

    fn finding(&self, problem: Problem, severity: Severity, what: String, fix: String) -> Finding {
        Finding {
            address: Some(self.endpoint.ip.ip()),
            ..Finding::of_slice(self.slice, problem, severity, what, fix)
        }
    }
}
