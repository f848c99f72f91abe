//! Why the proof against an endpoint does not hold.

use epguard_common::Uid;
use serde::{Deserialize, Serialize};

/// The first step of the proof that fails, in the order in which `judge` takes them. `P` names a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NotProven<P = Uid> {
    /// The agent has not listed everything yet.
    NotSynced,
    /// The IP is a node's address.
    NodeAddress,
    /// The IP is outside of the ranges that may be denied.
    #[serde(alias = "range")]
    OutOfRange,
    /// The Service has no VIP: it is headless, or gone.
    NoVip,
    /// The Service, or a slice of it, is too large to take in.
    TooLarge,
    /// Several live pods show the IP.
    SeveralOwners(P, P),
    /// The Service or its Namespace has opted out.
    ServiceOptedOut,
    /// The live pod that shows the IP, or its Namespace, has opted out.
    OwnerOptedOut(P),
    /// A pod that is meant may still be in service.
    Target {
        /// Why it is not proven retired or dead.
        why: NotStale<P>,
        /// Whether a slice lists it now; otherwise one did within the last 10 minutes.
        listed: bool,
    },
    /// The Service has no selector, and no slice of it lists the IP.
    NotListed,
    /// A pod of the Service may hold the IP without showing it.
    PossibleHolder(P),
    /// A live pod of the Service shows the IP.
    OwnPod(P),
    /// The live pod that shows the IP was not seen to come after the retired one that is meant.
    NotLater(P),
}

/// Why a pod that is meant is not proven retired or dead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NotStale<P = Uid> {
    /// The slice names no pod.
    NoPod,
    /// The API has not shown the pod.
    Unknown(P),
    /// The pod is alive.
    Live(P),
    /// The pod is alive and has a deletionTimestamp.
    Terminating(P),
    /// The pod has ended, which proves nothing.
    Exempt(P, Exemption),
}

/// Why a pod's end proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Exemption {
    /// The pod or its Namespace has `epguard.io/mode: off`.
    OptedOut,
    /// Its IP outlives it by design.
    StaticIp,
    /// Its IP is its node's.
    HostNetwork,
    /// Only a virtual kubelet reports its end.
    VirtualKubelet,
}

impl<P> NotProven<P> {
    /// The same with pods named by another type.
    pub fn map<Q>(self, name: impl Fn(P) -> Q) -> NotProven<Q> {
        match self {
            Self::NotSynced => NotProven::NotSynced,
            Self::NodeAddress => NotProven::NodeAddress,
            Self::OutOfRange => NotProven::OutOfRange,
            Self::NoVip => NotProven::NoVip,
            Self::TooLarge => NotProven::TooLarge,
            Self::SeveralOwners(one, other) => NotProven::SeveralOwners(name(one), name(other)),
            Self::ServiceOptedOut => NotProven::ServiceOptedOut,
            Self::OwnerOptedOut(pod) => NotProven::OwnerOptedOut(name(pod)),
            Self::Target { why, listed } => NotProven::Target { why: why.map(name), listed },
            Self::NotListed => NotProven::NotListed,
            Self::PossibleHolder(pod) => NotProven::PossibleHolder(name(pod)),
            Self::OwnPod(pod) => NotProven::OwnPod(name(pod)),
            Self::NotLater(pod) => NotProven::NotLater(name(pod)),
        }
    }
}

impl<P> NotStale<P> {
    fn map<Q>(self, name: impl Fn(P) -> Q) -> NotStale<Q> {
        match self {
            Self::NoPod => NotStale::NoPod,
            Self::Unknown(pod) => NotStale::Unknown(name(pod)),
            Self::Live(pod) => NotStale::Live(name(pod)),
            Self::Terminating(pod) => NotStale::Terminating(name(pod)),
            Self::Exempt(pod, why) => NotStale::Exempt(name(pod), why),
        }
    }
}
