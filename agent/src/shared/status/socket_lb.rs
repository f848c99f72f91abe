//! The socket load balancer of the node, for the status.

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
