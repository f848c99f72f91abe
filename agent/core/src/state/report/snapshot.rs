//! What the agent knows about one IP at a moment: all that a verdict rests on, with names.

use crate::state::not_proven::{Exemption, NotProven};
use epguard_common::{Mode, Reason, UidState};
use serde::{Deserialize, Serialize};

/// All facts about an IP. Equal views lead to equal verdicts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// Whether every watch has shown a whole list; until then nothing is denied.
    pub synced: bool,
    /// Why the IP is never judged; none if it is judged.
    pub spared: Option<NotProven<String>>,
    /// Pods that show the IP, and pods that a Service lists there. Sorted by name.
    pub pods: Vec<PodView>,
    /// Services that list the IP, or did within the last 10 minutes. Sorted by name.
    pub services: Vec<ServiceView>,
    /// The dead pod that had the orphan IP last: packets to the IP itself are denied as `terminated`.
    pub terminated: Option<String>,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    /// `namespace/name`.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The node it is bound to.
    pub node: Option<String>,
    /// What is proven of it: `live`, `retired` or `dead`.
    #[serde(alias = "life")]
    pub uid_state: UidState,
    /// Why the pod's end proves nothing; none if it does.
    #[serde(default)]
    pub exempt: Option<Exemption>,
    /// Has a deletionTimestamp.
    pub deleting: bool,
    /// Whether the API shows the object.
    pub present: bool,
    /// Whether it shows the IP.
    pub shows: bool,
    /// The order in which its claim was first seen; one list has one number. None if the pod never published the IP.
    pub order: Option<u64>,
}

/// A Service, as far as it concerns the IP.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServiceView {
    /// `namespace/name`.
    pub name: String,
    /// The endpoints that it lists at the IP. Sorted by port.
    pub endpoints: Vec<EndpointView>,
}

/// A port of a Service at the IP.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EndpointView {
    /// Target port, host order.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The pods that slices name behind it, or named.
    pub targets: Vec<TargetView>,
    /// The denial, if one is proven.
    pub denial: Option<DenialView>,
    /// Why no denial is proven; none if one is.
    pub not_proven: Option<NotProven<String>>,
}

/// A pod that is meant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TargetView {
    /// Its UID; none where the slice names no pod.
    pub uid: Option<String>,
    /// `namespace/name`, or the UID of one unknown; none where the slice names no pod.
    pub pod: Option<String>,
    /// Whether a slice lists it now; otherwise one did recently.
    pub listed: bool,
    /// Whether a slice lists it as ready now.
    pub ready: bool,
}

/// A denial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DenialView {
    /// Which proof holds.
    pub reason: Reason,
    /// Only packets that open a connection.
    pub openers_only: bool,
    /// The pod that is meant.
    pub meant: String,
    /// The pod that would be hit.
    pub hit: Option<String>,
    /// True if it is pending: it waits for a second list, and is only reported.
    pub held: bool,
    /// Highest mode that annotations allow for it.
    pub bound: Mode,
}

impl View {
    /// True if the view has no pod, no Service and no denial of the IP itself.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.services.is_empty() && self.terminated.is_none()
    }
}
