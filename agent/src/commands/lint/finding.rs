//! A problem of an object, its writer, and its remedy.

use epguard_core::facts::Name;
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;

/// Something to repair. Sorted by object, then by address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Kind, namespace and name.
    pub object: Object,
    /// The writer of the object: the slice's `managed-by`, or a description.
    pub controller: String,
    /// The endpoint that it is about; none for one about a whole Service or slice.
    pub address: Option<IpAddr>,
    /// The kind of problem.
    pub problem: Problem,
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
pub struct Object {
    /// `EndpointSlice`, `Service` or `Pod`.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Traffic goes, or may go, to no pod or to the wrong pod.
    Error,
    /// Traffic does not go there yet, or it cannot be decided.
    Warning,
}

/// The kind of problem; the names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Problem {
    /// The endpoint's pod is Succeeded or Failed.
    TerminalPod,
    /// The targetRef's UID is another one than that of the pod of this name.
    ForeignUid,
    /// The targetRef names a pod that does not exist.
    GonePod,
    /// The targetRef names a pod without its UID.
    MissingUid,
    /// A pod's address, without a targetRef to it.
    MissingTargetRef,
    /// The address is not the named pod's, but another's.
    AnothersAddress,
    /// No pod has the address.
    NobodysAddress,
    /// Several pods have the address.
    DuplicateAddress,
    /// The address is in no range of its pod's node.
    OutsidePodCidr,
    /// The slice is made by another controller than its Service wants, or by several.
    ForeignController,
    /// The slice is copied from an Endpoints object.
    Mirrored,
    /// A Service lists pods of the host network beside others.
    HostNetworkMix,
}

impl Problem {
    /// The name as it is printed: `terminal-pod`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TerminalPod => "terminal-pod",
            Self::ForeignUid => "foreign-uid",
            Self::GonePod => "gone-pod",
            Self::MissingUid => "missing-uid",
            Self::MissingTargetRef => "missing-target-ref",
            Self::AnothersAddress => "anothers-address",
            Self::NobodysAddress => "nobodys-address",
            Self::DuplicateAddress => "duplicate-address",
            Self::OutsidePodCidr => "outside-pod-cidr",
            Self::ForeignController => "foreign-controller",
            Self::Mirrored => "mirrored",
            Self::HostNetworkMix => "host-network-mix",
        }
    }
}

impl Severity {
    /// `error` or `warning`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

impl Object {
    /// An object by its name.
    #[must_use]
    pub fn new(kind: &'static str, (namespace, name): &Name) -> Self {
        Self {
            kind,
            namespace: namespace.clone(),
            name: name.clone(),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}
