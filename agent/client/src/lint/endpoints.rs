//! Checks each endpoint of each slice: does the pod that it names have the address?

use super::cluster::Cluster;
use super::finding::{ENDPOINTSLICE, LintFinding, LintProblem, Severity, correct, pod_names};

use epguard_common::UidState;
use epguard_core::facts::{ListedSlice, ObjectName, Pod, SliceEndpoint};

/// The problems of a slice's endpoints; of each at most one, the worst.
pub fn check(cluster: &Cluster<'_>, slice: &ListedSlice) -> impl Iterator<Item = LintFinding> {
    slice
        .facts
        .endpoints
        .iter()
        .zip(&slice.targets)
        .filter_map(move |(endpoint, target)| {
            let check = EndpointCheck {
                cluster,
                slice,
                endpoint,
            };
            match target {
                None => check.check_anonymous(),
                Some(name) => check.check_named(name, cluster.pod_named(name)),
            }
        })
}

struct EndpointCheck<'a> {
    cluster: &'a Cluster<'a>,
    slice: &'a ListedSlice,
    endpoint: &'a SliceEndpoint,
}

impl EndpointCheck<'_> {
    /// Checks an endpoint without targetRef. Selector-less Services may list addresses that are no
    /// pod's; only those of pods have to name their pod.
    fn check_anonymous(&self) -> Option<LintFinding> {
        let mut shown = self.cluster.showing(self.endpoint.ip);
        shown.retain(|pod| pod.uid_state == UidState::Live || !self.cluster.is_spared(pod));
        let holders = self.holders();
        let what = match &shown[..] {
            _ if !holders.is_empty() => {
                let what = format!(
                    "belongs to {}, but the endpoint names no pod",
                    pod_names(holders)
                );
                let how = "set its targetRef with the pod's UID";
                return Some(self.found(
                    LintProblem::MissingTargetRef,
                    Severity::Warning,
                    what,
                    how,
                ));
            }
            [] if !self.cluster.is_in_a_range(self.endpoint.ip) => return None,
            [] => "is in a node's pod range, and no pod has it".to_owned(),
            finished => {
                format!(
                    "was that of {}, finished; the endpoint names no pod",
                    pod_names(finished.to_vec())
                )
            }
        };
        Some(self.found(
            LintProblem::NobodysAddress,
            self.severity(),
            what,
            "remove the endpoint",
        ))
    }

    /// Checks an endpoint that names a pod; `now` is the pod of this name.
    fn check_named(&self, target: &ObjectName, now: Option<&Pod>) -> Option<LintFinding> {
        let name = target.to_string();
        let Some(uid) = self.endpoint.target else {
            let (severity, state) = match now {
                None => (self.severity(), "which does not exist"),
                Some(pod) if pod.uid_state != UidState::Live => {
                    (self.severity(), "which has finished")
                }
                Some(pod) if !self.is_at(pod) => (self.severity(), "which has another address"),
                Some(_) => (Severity::Warning, "which has the address now"),
            };
            let unclear = "after a replacement it is unclear which pod is meant";
            let what = format!(
                "names pod {name} without a UID, {state}; {unclear}{}",
                self.hit_instead_of(now)
            );
            let how = "set targetRef.uid, or remove the endpoint";
            return Some(self.found(LintProblem::MissingUid, severity, what, how));
        };
        let how = "remove the endpoint, or name the pod that is meant";
        match (self.cluster.pod(uid), now) {
            (None, Some(pod)) => {
                let what = format!(
                    "means UID {uid}, but pod {name} is UID {}{}",
                    pod.uid,
                    self.hit_instead_of(now)
                );
                Some(self.found(LintProblem::ForeignUid, self.astray(), what, how))
            }
            (None, None) => {
                let what = format!(
                    "names pod {name} ({uid}), which does not exist{}",
                    self.hit_instead_of(now)
                );
                Some(self.found(LintProblem::GonePod, self.severity(), what, how))
            }
            (Some(pod), _) if self.cluster.is_spared(pod) => None,
            (Some(pod), _) if pod.uid_state != UidState::Live => Some(self.terminal(pod)),
            (Some(pod), _) if !self.is_at(pod) => Some(self.elsewhere(pod)),
            (Some(pod), _) => self.outside(pod),
        }
    }

    fn terminal(&self, pod: &Pod) -> LintFinding {
        let proof = match pod.uid_state {
            _ if pod.host_network => "has finished, and the address is its node's",
            UidState::Dead => "has finished and released the address",
            _ => "has finished",
        };
        let ready = if self.endpoint.ready {
            "ready"
        } else {
            "not ready"
        };
        let now = self.hit_instead_of(Some(pod));
        let what = format!("pod {} {proof}, still listed as {ready}{now}", pod.name);
        let mut found = self.found(
            LintProblem::TerminalPod,
            self.severity(),
            what,
            "remove the endpoint",
        );
        if self.slice.managed_by.as_deref() == Some(ENDPOINTSLICE) {
            let ObjectName { namespace, name } = &pod.name;
            found.fix = format!(
                "delete the finished pod: kubectl -n {namespace} delete pod {name}; for Jobs set \
                 ttlSecondsAfterFinished, or keep their pods out of the Service's selector"
            );
        }
        found
    }

    fn elsewhere(&self, pod: &Pod) -> LintFinding {
        let addresses: Vec<String> = pod.addresses().map(|ip| ip.to_string()).collect();
        let shown = if addresses.is_empty() {
            "no address".to_owned()
        } else {
            addresses.join(", ")
        };
        let holders = self.holders();
        let (problem, severity, whose) = if holders.is_empty() {
            (
                LintProblem::NobodysAddress,
                self.severity(),
                "no pod has it".to_owned(),
            )
        } else {
            (
                LintProblem::AnothersAddress,
                self.astray(),
                format!("belongs to {}", pod_names(holders)),
            )
        };
        let what = format!("{whose}; pod {}, which is meant, has {shown}", pod.name);
        self.found(
            problem,
            severity,
            what,
            "list the pod's present address, or remove the endpoint",
        )
    }

    fn outside(&self, pod: &Pod) -> Option<LintFinding> {
        let ip = self.endpoint.ip;
        let ranges = self.cluster.ranges(pod, ip);
        let expected = !pod.host_network && pod.ips.contains(&ip) && self.cluster.ranges_are_used;
        if !expected || ranges.is_empty() || ranges.iter().any(|range| range.contains(ip)) {
            return None;
        }
        let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
        let node = pod.node.as_deref().unwrap_or_default();
        let what = format!(
            "pod {} has it, outside of {} of its node {node}",
            pod.name,
            ranges.join(", ")
        );
        let fix = "see which IPAM the node's CNI configuration names: other nodes' pods get addresses from their own range";
        let found = self.found(LintProblem::OutsidePodCidr, Severity::Warning, what, "");
        Some(LintFinding {
            fix: fix.to_owned(),
            ..found
        })
    }

    fn holders(&self) -> Vec<&Pod> {
        self.cluster.holders(self.endpoint.ip)
    }

    fn is_at(&self, pod: &Pod) -> bool {
        pod.addresses().any(|ip| ip == self.endpoint.ip)
    }

    /// The severity for ready and other endpoints: traffic goes to ready endpoints only.
    fn severity(&self) -> Severity {
        if self.endpoint.ready {
            self.astray()
        } else {
            Severity::Warning
        }
    }

    /// The severity for traffic that comes: a pod of the Service's own is right for it.
    fn astray(&self) -> Severity {
        if self.reaches_own() {
            Severity::Warning
        } else {
            Severity::Error
        }
    }

    fn reaches_own(&self) -> bool {
        let service = self.slice.facts.service.as_ref();
        service.is_some_and(|service| self.cluster.has_own(service, self.endpoint.ip))
    }

    /// The pods that are hit instead of the pod that is meant, as text.
    fn hit_instead_of(&self, meant: Option<&Pod>) -> String {
        let mut others = self.holders();
        others.retain(|pod| meant.is_none_or(|meant| meant.uid != pod.uid));
        if others.is_empty() {
            return String::new();
        }
        let own = if self.reaches_own() {
            ", the Service's own"
        } else {
            ""
        };
        format!("; the address belongs to {} now{own}", pod_names(others))
    }

    /// A finding that is corrected in the slice.
    fn found(
        &self,
        problem: LintProblem,
        severity: Severity,
        what: String,
        how: &str,
    ) -> LintFinding {
        let found = LintFinding::of_slice(self.slice, problem, what, correct(self.slice, how));
        LintFinding {
            address: Some(self.endpoint.ip.ip()),
            severity,
            ..found
        }
    }
}
