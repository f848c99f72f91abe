//! A problem of an object, its writer, and its remedy.

use crate::shared::output::in_words;
use epguard_core::facts::{ListedSlice, ObjectName, Pod, Slice};
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;
use strum::{Display, EnumMessage, IntoStaticStr, VariantArray};

/// The controller that makes the slices of Services that have a selector.
pub const ENDPOINTSLICE: &str = Slice::CONTROLLER;
/// The controller that copies Endpoints objects of Services that have none.
pub const MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";

/// Something to repair. Sorted by object, then by address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LintFinding {
    /// Kind, namespace and name.
    pub object: LintObject,
    /// The writer of the object: the slice's `managed-by`, or a description.
    pub controller: String,
    /// The endpoint that it is about; none for one about a whole Service or slice.
    pub address: Option<IpAddr>,
    /// The kind of problem.
    pub problem: LintProblem,
    /// How bad.
    pub severity: Severity,
    /// The problem in words, with the names of all concerned.
    pub what: String,
    /// The remedy.
    pub fix: String,
}

/// An object of the API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LintObject {
    /// `EndpointSlice`, `Service` or `Pod`.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Display, IntoStaticStr, Serialize)]
#[strum(serialize_all = "kebab-case")]
#[serde(into = "&'static str")]
pub enum Severity {
    /// Traffic goes, or may go, to no pod or to the wrong pod.
    Error,
    /// Traffic does not go there yet, or it cannot be decided.
    Warning,
}

/// Every kind of problem: the table of docs/operate.md has these names, which are stable, and these
/// sentences.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Display,
    IntoStaticStr,
    VariantArray,
    EnumMessage,
    Serialize,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(into = "&'static str")]
pub enum LintProblem {
    /// A pod that is Succeeded or Failed
    TerminalPod,
    /// A `targetRef` with another UID than that of the pod of this name
    ForeignUid,
    /// A `targetRef` to a pod that does not exist
    GonePod,
    /// A `targetRef` without the pod's UID: epguard passes the endpoint's packets
    MissingUid,
    /// A pod's address without a `targetRef` to the pod: epguard passes the endpoint's packets
    MissingTargetRef,
    /// An address that is not the named pod's, but another's
    AnothersAddress,
    /// An address that no pod has
    NobodysAddress,
    /// Several live pods with one address
    DuplicateAddress,
    /// A live pod's address that a Service or a Node has, too
    ForeignAddress,
    /// A pod's address outside of its node's range, where most pods keep to theirs
    OutsidePodCidr,
    /// A slice by another controller than its Service wants, or slices by several
    ForeignController,
    /// A slice that is copied from an Endpoints object
    Mirrored,
    /// A Service with pods of the host network, which are never judged, beside others
    HostNetworkMix,
}

impl LintFinding {
    /// A problem of an object.
    pub fn new(
        object: LintObject,
        controller: String,
        problem: LintProblem,
        what: String,
        fix: impl Into<String>,
    ) -> Self {
        let severity = Severity::Warning;
        Self {
            object,
            controller,
            address: None,
            problem,
            severity,
            what,
            fix: fix.into(),
        }
    }

    /// A problem of a whole slice.
    pub fn of_slice(
        slice: &ListedSlice,
        problem: LintProblem,
        what: String,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(
            LintObject::new("EndpointSlice", &slice.facts.name),
            controller_name(slice),
            problem,
            what,
            fix,
        )
    }
}

impl LintObject {
    /// An object by its name.
    pub fn new(kind: &'static str, object: &ObjectName) -> Self {
        Self {
            kind,
            namespace: object.namespace.to_string(),
            name: object.name.to_string(),
        }
    }
}

impl fmt::Display for LintObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// The name of the slice's writer, for people.
pub fn controller_name(slice: &ListedSlice) -> String {
    let name = slice.managed_by.as_deref();
    name.unwrap_or("none (no managed-by label)").to_owned()
}

/// How an endpoint is taken out of the slice, or corrected: it depends on the slice's controller.
pub fn correct(listed: &ListedSlice, how: &str) -> String {
    let slice = &listed.facts;
    let ObjectName { namespace, name } = &slice.name;
    // An Endpoints object has its Service's name.
    let service = slice.service.as_ref().unwrap_or(&slice.name).to_string();
    match listed.managed_by.as_deref() {
        Some(ENDPOINTSLICE) => format!(
            "{how}: {ENDPOINTSLICE} should have, so check that kube-controller-manager runs, and its log about {service}"
        ),
        Some(MIRRORING) => {
            format!("{how} in the Endpoints object {service}, of which this is a copy")
        }
        Some(other) => format!("have {other} {how}; it alone writes this slice"),
        None => format!(
            "{how}: kubectl -n {namespace} edit endpointslice {name}; no controller does it"
        ),
    }
}

/// Names of pods: `a/b, a/c and a/d`.
pub fn pod_names<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> String {
    let names: Vec<String> = pods.into_iter().map(|pod| pod.name.to_string()).collect();
    in_words(&names)
}
