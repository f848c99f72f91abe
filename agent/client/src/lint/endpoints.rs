//! Checks each endpoint of each slice: does the pod that it names have the address?

use super::advice::{UNJUDGED, who_corrects, why_listed};
use super::cluster::Cluster;
use super::finding::{ENDPOINTSLICE, LintFinding, LintProblem, Severity, pod_names};

use epguard_common::UidState;
use epguard_core::facts::{ListedSlice, ObjectName, Pod, SliceEndpoint};

/// What is found out about an endpoint.
pub enum Checked {
    /// The endpoint agrees with the pods.
    Good,
    /// Its worst problem.
    Problem(LintFinding),
    /// It cannot be compared with the pod that it names.
    Unknown(UnknownPod),
}

/// Why nothing is known of the pod that an endpoint names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnknownPod {
    /// Pods of its namespace were not listed.
    NotListed,
    /// This cluster has neither the pod nor the address, and the slice's writer may list those of
    /// another cluster.
    Elsewhere,
}

/// Checks a slice's endpoints.
pub fn check(cluster: &Cluster<'_>, slice: &ListedSlice) -> impl Iterator<Item = Checked> {
    slice
        .facts
        .endpoints
        .iter()
        .zip(&slice.targets)
        .map(move |(endpoint, target)| {
            let check = EndpointCheck {
                cluster,
                slice,
                endpoint,
            };
            match target {
                None => check.check_anonymous(),
                Some(name) => check.check_named(name),
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
    fn check_anonymous(&self) -> Checked {
        let mut shown = self.cluster.showing(self.endpoint.ip);
        shown.retain(|pod| pod.uid_state == UidState::Live || !self.cluster.is_spared(pod));
        let holders = self.holders();
        if !holders.is_empty() {
            let what = format!(
                "belongs to {}, but the endpoint names no pod",
                pod_names(holders)
            );
            let mut found = self.found(LintProblem::MissingTargetRef, Severity::Warning, what);
            found.fix = format!("{UNJUDGED}, and only its writer can name the pod, with its UID");
            return Checked::Problem(found);
        }
        if !shown.is_empty() {
            let what = format!(
                "was that of {}, finished; the endpoint names no pod",
                pod_names(shown)
            );
            return Checked::Problem(self.found(LintProblem::TerminalPod, self.severity(), what));
        }
        if !self.is_nobodys() {
            return Checked::Good;
        }
        let what =
            "is in a node's pod range, and no pod shows it: it leads to nobody, or to the node";
        Checked::Problem(self.found(
            LintProblem::NobodysAddress,
            self.severity(),
            what.to_owned(),
        ))
    }

    /// Checks an endpoint that names a pod.
    fn check_named(&self, name: &ObjectName) -> Checked {
        let now = self.cluster.pod_named(name);
        let meant = match self.endpoint.target {
            Some(uid) => self.cluster.pod(uid),
            None => now,
        };
        let Some(pod) = meant else {
            if !self.cluster.unlisted.lists_pod(name) {
                return Checked::Unknown(UnknownPod::NotListed);
            }
            if !self.is_of_this_cluster() {
                return Checked::Unknown(UnknownPod::Elsewhere);
            }
            return Checked::Problem(self.not_there(name, now));
        };
        if self.endpoint.target.is_none() {
            if !self.is_at(pod) && !self.is_of_this_cluster() {
                return Checked::Unknown(UnknownPod::Elsewhere);
            }
            return Checked::Problem(self.without_uid(name, pod));
        }
        if self.cluster.is_spared(pod) {
            return Checked::Good;
        }
        if pod.uid_state != UidState::Live {
            return Checked::Problem(self.terminal(pod));
        }
        if !self.is_at(pod) {
            return Checked::Problem(self.elsewhere(pod));
        }
        Checked::Good
    }

    /// The pod that is meant is not there; `now` is another one of this name.
    fn not_there(&self, name: &ObjectName, now: Option<&Pod>) -> LintFinding {
        let hit = self.hit_instead_of(now);
        match (self.endpoint.target, now) {
            (Some(uid), Some(pod)) => {
                let what = format!("means UID {uid}, but pod {name} is UID {}{hit}", pod.uid);
                self.found(LintProblem::ForeignUid, self.astray(), what)
            }
            (Some(uid), None) => {
                let what =
                    format!("names pod {name} ({uid}), which this cluster does not have{hit}");
                self.found(LintProblem::GonePod, self.severity(), what)
            }
            (None, _) => {
                let what = format!(
                    "names pod {name} without a UID, which this cluster does not have{hit}"
                );
                self.found(LintProblem::MissingUid, self.severity(), what)
            }
        }
    }

    fn without_uid(&self, name: &ObjectName, pod: &Pod) -> LintFinding {
        let (severity, state) = if pod.uid_state != UidState::Live {
            (self.severity(), "which has finished")
        } else if self.is_at(pod) {
            (Severity::Warning, "which has the address now")
        } else {
            (self.severity(), "which has another address")
        };
        let unclear = "after a replacement it is unclear which pod is meant";
        let what = format!(
            "names pod {name} without a UID, {state}; {unclear}{}",
            self.hit_instead_of(Some(pod))
        );
        let mut found = self.found(LintProblem::MissingUid, severity, what);
        if pod.uid_state == UidState::Live && self.is_at(pod) {
            found.fix = format!("{UNJUDGED}, and only its writer can add the pod's UID");
        }
        found
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
        let mut found = self.found(LintProblem::TerminalPod, self.severity(), what);
        if self.is_kept_by_selector() {
            found.fix = why_listed(self.cluster, pod);
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
        let (problem, severity, whose) = if !holders.is_empty() {
            let whose = format!("belongs to {}", pod_names(holders));
            (LintProblem::AnothersAddress, self.astray(), whose)
        } else if self.cluster.unlisted.lists_all_pods() {
            let severity = if self.is_of_this_cluster() {
                self.severity()
            } else {
                Severity::Warning
            };
            let whose = "no pod shows it".to_owned();
            (LintProblem::NobodysAddress, severity, whose)
        } else {
            let whose = "no pod that was listed shows it".to_owned();
            (LintProblem::AnothersAddress, self.severity(), whose)
        };
        let what = format!("{whose}; pod {}, which is meant, has {shown}", pod.name);
        self.found(problem, severity, what)
    }

    fn holders(&self) -> Vec<&Pod> {
        self.cluster.holders(self.endpoint.ip)
    }

    fn is_at(&self, pod: &Pod) -> bool {
        pod.addresses().any(|ip| ip == self.endpoint.ip)
    }

    /// True if the `EndpointSlice` controller updates the slice when pods come and go.
    fn is_kept_by_selector(&self) -> bool {
        let service = self.slice.facts.service.as_ref();
        let service = service.and_then(|name| self.cluster.agent().service(name));
        self.slice.managed_by.as_deref() == Some(ENDPOINTSLICE)
            && service.is_some_and(|service| service.selector.is_some())
    }

    /// True if the address is of a node's range, and it is known that no pod shows it.
    fn is_nobodys(&self) -> bool {
        self.cluster.unlisted.lists_all_pods() && self.cluster.is_in_a_range(self.endpoint.ip)
    }

    /// True if the endpoint is one of this cluster's: its own controller lists no others, and
    /// packets to an address of its pods or ranges stay in it.
    fn is_of_this_cluster(&self) -> bool {
        self.slice.managed_by.as_deref() == Some(ENDPOINTSLICE)
            || !self.holders().is_empty()
            || self.cluster.is_in_a_range(self.endpoint.ip)
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

    /// A finding that the slice's writer corrects.
    fn found(&self, problem: LintProblem, severity: Severity, what: String) -> LintFinding {
        let found = LintFinding::of_slice(self.slice, problem, what, who_corrects(self.slice));
        LintFinding {
            address: Some(self.endpoint.ip.ip()),
            severity,
            ..found
        }
    }
}
