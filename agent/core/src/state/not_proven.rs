//! Why the proof against an endpoint does not hold.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The first step of the proof that fails, in the order of the proof. Pods are named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NotProven {
    /// The agent has not listed everything yet.
    NotSynced,
    /// The IP is a node's address.
    NodeAddress,
    /// The IP is outside of the ranges that may be denied.
    #[serde(alias = "range")]
    OutOfRange,
    /// The Service has no VIP: it is headless, or gone.
    NoVip,
    /// The Service, or a slice of it, is too large to take in, or too many of its pods start.
    TooLarge,
    /// Several live pods show the IP.
    SeveralOwners(String, String),
    /// The Service or its Namespace has opted out.
    ServiceOptedOut,
    /// The live pod that shows the IP, or its Namespace, has opted out.
    OwnerOptedOut(String),
    /// A pod that is meant may still be in service.
    Target {
        /// Why it is not proven retired or dead.
        why: NotStale,
        /// Whether a slice lists it now; otherwise one did within the last 10 minutes.
        listed: bool,
    },
    /// The Service has no selector, and no slice of it lists the IP.
    NotListed,
    /// A pod of the Service may hold the IP without showing it: the pod, and what it shows.
    PossibleHolder(String, HolderShows),
    /// As `PossibleHolder`, unless its node is still the one that hands out other IPs: the pod, and
    /// that node, which was not seen since the pod was bound.
    NodeNotSeen(String, String),
    /// A live pod of the Service shows the IP.
    OwnPod(String),
    /// The live pod that shows the IP was not seen to come after the retired one that is meant.
    NotLater(String),
}

/// What a possible holder shows, so that it may hold another IP, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HolderShows {
    /// No IP.
    Nothing,
    /// IPs that may be those of its sandbox before.
    MaybeOfOldSandbox,
    /// IPs of the other family alone.
    OtherFamily,
    /// More addresses than are read, or one that cannot be read.
    Unreadable,
}

/// Why a pod that is meant is not proven retired or dead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NotStale {
    /// The slice names no pod.
    NoPod,
    /// The API has not shown the pod.
    Unknown(String),
    /// The pod is alive.
    Live(String),
    /// The pod is alive and has a deletionTimestamp.
    Terminating(String),
    /// The pod has ended, which proves nothing.
    Exempt(String, Exemption),
}

/// Why a pod's end proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
