//! A socket load balancer and our hooks around it, for the status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Packets to suspects whose sockets show no Service: they pass; since the datapath was attached.
    #[serde(default)]
    pub unknown_sockets: u64,
    /// Why the hooks are not in force; none if they are, or if there is no load balancer.
    pub problem: Option<String>,
}
