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

/// How many names a finding has.
pub const NAMES: usize = 3;

/// Something to repair. Sorted by object, then by address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LintFinding {
    /// Kind, namespace and name.
    pub object: LintObject,
    /// The writer of the object: the slice's `managed-by`, or a description.
    pub controller: String,
    /// The address that it is about; none where it is about several.
    pub address: Option<IpAddr>,
    /// The kind of problem.
    pub problem: LintProblem,
    /// How bad.
    pub severity: Severity,
    /// The problem in words, with the names of all concerned.
    pub what: String,
    /// Where to look for the cause, or what changes nothing that is in service.
    pub fix: String,
}

/// An object of the API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LintObject {
    /// `EndpointSlice`, `Service`, `Pod` or `Node`.
    pub kind: &'static str,
    /// Its namespace; empty for a Node.
    #[serde(skip_serializing_if = "String::is_empty")]
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

/// Every kind of problem, one for each cause: docs/lint.md has a heading for each of these names,
/// which are stable, and below it this sentence.
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
    /// A `targetRef` to a pod that this cluster does not have
    GonePod,
    /// A `targetRef` without the pod's UID: epguard passes the endpoint's packets
    MissingUid,
    /// A pod's address without a `targetRef` to the pod: epguard passes the endpoint's packets
    MissingTargetRef,
    /// An address that the named pod does not have, and another pod may have
    AnothersAddress,
    /// An address that no pod shows
    NobodysAddress,
    /// Slices of the `EndpointSlice` controller whose Service has no selector: they are updated no more
    AbandonedSlice,
    /// A Service whose slices have several writers
    ForeignController,
    /// A Service with pods of the host network, which are never judged, beside others
    HostNetworkMix,
    /// Pods of one node with the same address
    DuplicateAddress,
    /// Nodes that give their pods the same addresses
    SharedRange,
    /// A pod's address that a terminating pod shows, too
    HandedOnAddress,
    /// A pod's address that a Service or another Node has, too
    ForeignAddress,
    /// Pods with addresses outside of their node's range, where most pods keep to theirs
    OutsidePodCidr,
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

    /// True if both are about the same: the words may differ, as lists are not of one moment.
    pub fn is_about_same(&self, other: &Self) -> bool {
        let is_same_problem = self.problem == other.problem;
        is_same_problem && self.object == other.object && self.address == other.address
    }

    /// A problem of a slice.
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

    /// A problem of the addresses that nodes give to pods. `nodes` names them, `node` is the first.
    pub fn of_nodes(
        node: String,
        nodes: &str,
        problem: LintProblem,
        what: String,
        fix: String,
    ) -> Self {
        let object = LintObject {
            kind: "Node",
            namespace: String::new(),
            name: node,
        };
        Self::new(object, ipam_of(nodes), problem, what, fix)
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
        if self.namespace.is_empty() {
            return write!(f, "{} {}", self.kind, self.name);
        }
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// The name of the slice's writer, for people.
pub fn controller_name(slice: &ListedSlice) -> String {
    let name = slice.managed_by.as_deref();
    name.unwrap_or("none (no managed-by label)").to_owned()
}

pub fn ipam_of(nodes: &str) -> String {
    format!("IPAM of the CNI on {nodes}")
}

/// Names of pods: `a/b, a/c and a/d`.
pub fn pod_names<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> String {
    let names: Vec<String> = pods.into_iter().map(|pod| pod.name.to_string()).collect();
    in_words(&names)
}
