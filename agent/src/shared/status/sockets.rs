//! What acts on the sockets of the node, for the status: our hooks, and a socket load balancer.

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

/// Programs that replace a Service's address when a socket connects, and our hooks before and after them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SocketLb {
    /// Its programs, such as `cil_sock4_conne (id 7)`, in the order in which they run; empty: there is none.
    pub programs: Vec<String>,
    /// The cgroup that they are attached to.
    pub cgroup: String,
    /// Where our hooks before it are: `root`, for the same cgroup, or `children`, for each cgroup in it; empty: nowhere.
    pub before: String,
    /// Whether all our hooks are attached, and run before and after its programs.
    pub in_force: bool,
    /// Whether a refused call fails with `ECONNREFUSED`; else with `EPERM`.
    pub refuses: bool,
    /// Calls for which it has chosen an endpoint, since the datapath was attached.
    #[serde(default)]
    pub translated: u64,
    /// Names of netkit devices. Their programs may redirect packets before ours see them.
    pub netkit: Vec<String>,
    /// Packets at ingress hooks that were aimed at an affected Service, although the load balancer should have replaced that
    /// address when their socket connected; since the datapath was attached.
    pub not_translated: u64,
    /// Packets to suspects whose sockets called the IP itself, or were connected before epguard ran: they pass; since the datapath
    /// was attached.
    #[serde(default)]
    pub no_connection: u64,
    /// Why the hooks are not in force; none if they are, or if there is no load balancer.
    pub problem: Option<String>,
}
