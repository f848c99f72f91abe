//! The cgroups whose sockets are followed, for the status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sockets of the node's own processes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSockets {
    /// The directory whose children are hooked, or the one that `--cgroup` names; empty before the start.
    pub root: String,
    /// The cgroups that are hooked or should be. Removed cgroups are included while sockets that were made there
    /// exist.
    pub cgroups: Vec<CgroupHooks>,
    /// A program of another project that the kernel runs only without others: because of it no cgroup is hooked.
    pub exclusive: Option<String>,
    /// `name (pid)` of processes of this network namespace that are in the root itself: their sockets are not followed.
    pub outside: Vec<String>,
    /// Sockets that were connected to a Service before it had a denial, and are followed since it has one.
    #[serde(default)]
    pub earlier: u64,
    /// Such sockets beyond the limit of one lookup; their packets pass.
    #[serde(default)]
    pub left_out: u64,
}

/// A cgroup and its hooks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CgroupHooks {
    /// Its directory.
    pub path: String,
    /// Whether all programs are attached.
    pub attached: bool,
    /// Why they are not; none if they are.
    pub error: Option<String>,
}
