//! Why denials are not proven, for the status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Nodes on which pods finish and none is proven dead.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnprovenDeaths {
    /// The manager that writes these pods' phase, if the doubt is about it. None: the kubelet does not report
    /// `PodReadyToStartContainers`.
    pub manager: Option<String>,
    /// The nodes.
    pub nodes: Vec<String>,
    /// How many such pods there are.
    pub pods: usize,
}

/// A pod that may hold an IP that it does not show, and so keeps a denial from being proven.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PossibleHolder {
    /// `namespace/name`.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// For how many milliseconds it has been a possible holder.
    pub since_ms: u64,
    /// True if it keeps `terminated` from being denied on this node.
    pub blocks_terminated: bool,
    /// `namespace/name` of Services whose dead endpoints are not denied because of it.
    pub blocks_services: Vec<String>,
}
