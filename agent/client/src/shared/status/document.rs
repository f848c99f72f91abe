//! The status document.

use super::figures::{Figures, LatencyFigures};
use super::parts::{
    ActionInForce, Attachment, Conflict, ModeSource, Partial, Ranges, SocketLb, StoppedDenials,
    Translators, UNKNOWN, Unanswered, Watch,
};
use super::{lenient, parts};
use crate::shared::drops::Dropped;
use epguard_common::{Mode, Reason, ServiceNumber, Uid};
use epguard_core::facts::Watched;
use epguard_core::history::Chronicle;
use epguard_core::state::{IpState, PossibleHolder, UnprovenDeaths};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The form of the status document. A newer one than this version's is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u32")]
#[schemars(rename = "Form")]
pub struct DocumentForm(u32);

impl Default for DocumentForm {
    fn default() -> Self {
        Self(3)
    }
}

impl TryFrom<u32> for DocumentForm {
    type Error = String;

    fn try_from(form: u32) -> Result<Self, String> {
        let Self(newest) = Self::default();
        if form > newest {
            return Err(format!(
                "its form is {form}, and this epguard reads {newest} at most"
            ));
        }
        Ok(Self(form))
    }
}

/// The agent's state at one moment.
///
/// `docs/status.schema.json` describes it to programs; a test compares the two. What an older agent
/// does not send has its default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The form of this document. It rises when a field goes, or changes its type or meaning; new
    /// fields and new names in lists do not change it.
    pub form: DocumentForm,
    /// Version of the agent, as `epguard --version` prints it.
    pub version: String,
    /// Name of the Node that it runs on.
    pub node: String,
    /// Release of its kernel, as `uname -r` prints it; empty if it is not known.
    pub kernel: String,
    /// Whether every watch has shown a whole list.
    pub synced: bool,
    /// The node's mode; `unknown` if CONFIG cannot be read.
    #[serde(
        serialize_with = "parts::mode_or_unknown",
        deserialize_with = "lenient::value"
    )]
    #[schemars(schema_with = "parts::mode_schema")]
    pub mode: Option<Mode>,
    /// Source of the mode.
    #[serde(deserialize_with = "lenient::value")]
    pub mode_source: ModeSource,
    /// Why the mode policy is not in force, or only in part; none if it is, or if none is named.
    pub mode_policy: Option<String>,
    /// The mode in force for each reason: the lower of its own mode and the node's.
    #[serde(deserialize_with = "lenient::entries")]
    pub reasons: BTreeMap<Reason, Mode>,
    /// The action for denied packets of each reason, and its source; none if CONFIG cannot be read.
    #[serde(deserialize_with = "lenient::entries")]
    pub actions: BTreeMap<Reason, ActionInForce>,
    /// Which endpoints may be denied, by the operator's options.
    pub ranges: Ranges,
    /// The watches by resource: `pods`, `endpointslices`, ...
    #[serde(deserialize_with = "lenient::entries")]
    pub watches: BTreeMap<Watched, Watch>,
    /// resourceVersion per watch up to which the maps are written. For the mode policy: the modes,
    /// the actions and the release of a `ConfigMap` up to this version are in force.
    #[serde(deserialize_with = "lenient::entries")]
    pub applied: BTreeMap<Watched, u64>,
    /// Milliseconds until denials lapse; negative since they have; 0 if none held yet.
    pub lease_ms: i64,
    /// Age of the view in milliseconds: that of its least fresh watch; none if one was never proven
    /// fresh.
    pub view_age_ms: Option<u64>,
    /// Pod UID to `namespace/name`, for pods that own an IP or that a denial refers to.
    pub pods: BTreeMap<String, String>,
    /// Number of a Service that has, or lately had, denials, to its `namespace/name`.
    pub services: BTreeMap<String, String>,
    /// What records which Service packets were aimed at.
    pub translators: Translators,
    /// Interfaces that were selected.
    pub interfaces: Vec<Attachment>,
    /// Interfaces of the node at which nothing enters its stack in the name of an endpoint.
    pub unanswered: Vec<Unanswered>,
    /// Programs that replace a Service's address when a socket connects.
    pub socket_lb: SocketLb,
    /// Whether Services redirect, and no flow is redirected anew, since not every interface has the
    /// ingress hook.
    pub redirect_waits: bool,
    /// Latency from the receipt of an API event to the map write.
    pub latency: LatencyFigures,
    /// IPs that several live pods claim; nothing is denied there.
    pub conflicts: Vec<Conflict>,
    /// Denials that did not fit into a map: those packets pass.
    pub refused: usize,
    /// The same by the Service's namespace, without those that did not fit into the kernel's map.
    pub refused_by_namespace: BTreeMap<String, usize>,
    /// Services with denials that the breaker stops until a second list agrees.
    pub breaker: Vec<StoppedDenials>,
    /// Denials that the review found wrong, by reason.
    #[serde(deserialize_with = "lenient::entries")]
    pub wrong_denies: BTreeMap<Reason, u64>,
    /// Reasons that are only observed because of a wrong denial.
    #[serde(deserialize_with = "lenient::items")]
    pub demoted: Vec<Reason>,
    /// Services (`namespace/name`) that are only observed because a denial of them was wrong.
    pub demoted_services: Vec<String>,
    /// Nodes on which pods finish and none is proven dead.
    pub unproven: Vec<UnprovenDeaths>,
    /// Possible holders: pods that for more than a minute may hold an IP that they do not show, and
    /// so keep a denial from being proven.
    pub possible_holders: Vec<PossibleHolder>,
    /// How many `EndpointSlices` and Services are too large to take in, by namespace.
    pub left_out: BTreeMap<String, usize>,
    /// Objects that were read only in part.
    pub partial: Partial,
    /// Services with denials, each with another Service, named second, that claims one of its VIPs.
    pub rivals: Vec<(String, String)>,
    /// Counts and measurements.
    pub figures: Figures,
    /// The denied packets. Only on request; then all other fields are empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drops: Option<Vec<Dropped>>,
    /// The last lines of the agent's log. Only on request; then all other fields are empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<Vec<String>>,
    /// The history of one IP. Only on request; then all other fields but `translators` are empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Box<Chronicle>>,
}

impl Status {
    /// The node's mode, for people.
    pub fn mode_name(&self) -> &'static str {
        self.mode.map_or(UNKNOWN, Mode::as_str)
    }

    /// `reject (by mode policy); terminated drop (by flags)`: the action of most reasons, and then
    /// others, each with its source.
    pub fn actions_text(&self) -> String {
        let mut groups: Vec<(&ActionInForce, Vec<&str>)> = Vec::new();
        for (reason, action) in &self.actions {
            match groups.iter_mut().find(|(other, _)| *other == action) {
                Some((_, reasons)) => reasons.push(reason.as_str()),
                None => groups.push((action, vec![reason.as_str()])),
            }
        }
        groups.sort_by_key(|(_, reasons)| Reverse(reasons.len()));
        let mut texts = Vec::new();
        for (number, (ActionInForce { action, source }, reasons)) in groups.iter().enumerate() {
            let of_reasons = match number {
                0 => String::new(),
                _ => format!("{} ", reasons.join(", ")),
            };
            texts.push(format!("{of_reasons}{action} (by {source})"));
        }
        if texts.is_empty() {
            return UNKNOWN.to_owned();
        }
        texts.join("; ")
    }

    /// The name of a pod; its UID if the agent does not know it.
    pub fn pod(&self, uid: Uid) -> String {
        let uid = uid.to_string();
        self.pods.get(&uid).cloned().unwrap_or(uid)
    }

    /// The name of the Service with this number, if the agent knows it.
    pub fn service(&self, number: ServiceNumber) -> Option<String> {
        self.services.get(&number.number.to_string()).cloned()
    }

    /// The name of the Service with this number, or `Service NUMBER`.
    pub fn service_or_number(&self, number: ServiceNumber) -> String {
        let name = self.service(number);
        name.unwrap_or_else(|| format!("Service {}", number.number))
    }

    /// IPs that packets are denied to, or would be.
    pub fn denied_ips(&self) -> u64 {
        let states = [IpState::Denied, IpState::Terminated];
        states
            .iter()
            .filter_map(|state| self.figures.ips.get(state))
            .sum()
    }

    /// True if the lease of denials has ended, so that all packets pass.
    pub fn lease_has_ended(&self) -> bool {
        self.denies() && self.lease_ms <= 0
    }

    /// True if the agent has denials, or would have.
    pub fn denies(&self) -> bool {
        self.denied_ips() > 0
    }
}
