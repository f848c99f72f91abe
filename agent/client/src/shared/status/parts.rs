//! The parts of the status: what each of its lists and sections contains.

use super::lenient;
use epguard_common::{Action, Mode, Outcome};
use epguard_core::freshness::Proof;
use epguard_core::state::{self, StopReason};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};
use strum::{Display, IntoStaticStr, VariantArray};

/// Ranges of endpoints as text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ranges {
    /// Only endpoints in these are denied; none: all.
    pub protect: Vec<String>,
    /// Endpoints in these are never denied.
    pub exclude: Vec<String>,
}

impl From<&state::Ranges> for Ranges {
    fn from(ranges: &state::Ranges) -> Self {
        Self {
            protect: ranges.protect.iter().map(ToString::to_string).collect(),
            exclude: ranges.exclude.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Pods, `EndpointSlices` and Services that are read in part: packets that they may concern pass.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Partial {
    /// How many there are.
    pub count: usize,
    /// Kind, namespace and name of the first ones.
    pub first: Vec<String>,
}

/// A watch of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Watch {
    /// Whether it is connected and, while anything is denied, proven fresh within `--max-view-age`.
    pub up: bool,
    /// The newest resourceVersion seen.
    pub rv: u64,
    /// Milliseconds since it was proven fresh.
    pub age_ms: Option<u64>,
    /// The proof of that.
    pub proven_by: Option<Proof>,
    /// Why the watch is down, or why its freshness check failed.
    pub error: Option<String>,
    /// Objects, and annotations of objects, that could not be read.
    pub skipped: u64,
    /// How often the watch was lost; it then lists or resumes.
    pub restarts: u64,
}

/// An interface and its hooks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// The kernel's number of the interface.
    pub ifindex: u32,
    /// Name, as in `ip link`.
    pub name: String,
    /// `pod`, `uplink` or `tunnel`.
    pub role: String,
    /// Whether the egress hook is attached.
    pub attached: bool,
    /// Why it is not; none if it is.
    pub error: Option<String>,
    /// Whether the ingress hook is attached. Only redirected flows and a socket load balancer need
    /// it.
    #[serde(default)]
    pub ingress: bool,
    /// Why it is not, where something needs it, or why it is still attached.
    #[serde(default)]
    pub ingress_error: Option<String>,
    /// True while the interface is left to the CNI for some seconds, because it appeared under a
    /// running agent (`--clsact-delay`).
    #[serde(default)]
    pub waiting: bool,
    /// `tcx` or `clsact`.
    pub kernel_path: String,
    /// Our position in the longer of the two queues of programs, 1 is first; 0 without hooks.
    pub position: usize,
    /// Programs that run before ours, and could let a packet bypass ours.
    pub before: Vec<String>,
    /// `driver` where XDP judges `terminated` before TC does.
    pub xdp: Option<String>,
    /// Why XDP does not judge, where it was wanted: TC judges alone.
    pub xdp_error: Option<String>,
}

/// An interface at which nothing enters the stack in the name of an endpoint. Calls of the node's
/// own processes that lead there are dropped where they would be refused, and no flow is redirected
/// from an endpoint there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unanswered {
    /// Name, as in `ip link`.
    pub interface: String,
    /// The cause, with the names of other programs.
    pub why: String,
}

/// An IP with more than one claimant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Conflict {
    /// The IP as text.
    pub ip: String,
    /// `namespace/name` of each claimant.
    pub pods: Vec<String>,
}

/// A Service with denials that the breaker stops until a second list agrees.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoppedDenials {
    /// `namespace/name`.
    pub service: String,
    /// Endpoints (IPs) that are only observed.
    pub stopped: usize,
    /// Endpoints (IPs) that were ready at any time in the last 5 minutes.
    pub ready_recently: usize,
    /// For how many milliseconds at least one denial has been stopped.
    pub since_ms: u64,
    /// The newest resourceVersion that the agent had seen when the last of them was stopped; 0 if
    /// an older agent does not show it. A release of the mode policy names it, so that it releases
    /// no later ones.
    #[serde(default)]
    pub resource_version: u64,
    /// Why they are stopped.
    #[serde(deserialize_with = "lenient::value")]
    pub why: StopReason,
}

/// The translators whose records the programs read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Translators {
    /// Whether the programs read netfilter's conntrack entries.
    pub conntrack: bool,
    /// Names of Cilium's maps that the programs look up.
    pub cilium: Vec<String>,
    /// What keeps packets from being judged by their Service.
    #[serde(deserialize_with = "lenient::items")]
    pub gaps: Vec<Gap>,
}

/// Packets that have no record, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    /// Its kind.
    pub cause: Cause,
    /// The cause with its names.
    pub detail: String,
}

/// Why packets have no record.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Cause {
    /// The kernel does not show its conntrack entries to programs.
    Kernel,
    /// The module `nf_conntrack` is not loaded, and there is no other translator.
    NotLoaded,
    /// IPVS translates without conntrack.
    Ipvs,
    /// A flowtable of nftables forwards packets without conntrack.
    Flowtable,
    /// A map of Cilium's has an unknown shape.
    Cilium,
    /// Entries contradict their packets.
    Unreadable,
}

impl Cause {
    /// As what the packets are counted.
    pub const fn outcome(self) -> Outcome {
        if matches!(self, Self::Unreadable) {
            Outcome::UnreadableConnection
        } else {
            Outcome::NoConnection
        }
    }
}

/// Programs that replace a Service's address when a socket connects, and our hooks before and after
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SocketLb {
    /// Its programs, such as `cil_sock4_conne (id 7)`, in the order in which they run; empty: there
    /// is none.
    pub programs: Vec<String>,
    /// The cgroup that they are attached to.
    pub cgroup: String,
    /// Where our hooks before it are: `root`, for the same cgroup, or `children`, for each cgroup
    /// in it; empty: nowhere.
    pub before: String,
    /// Whether all our hooks are attached, and run before and after its programs.
    pub in_force: bool,
    /// Whether a refused call fails with `ECONNREFUSED`; else with `EPERM`.
    pub refuses: bool,
    /// Calls for which it has chosen an endpoint, since the datapath was attached; datagrams with
    /// an address of their own only while an IP is stale.
    #[serde(default)]
    pub translated: u64,
    /// Names of netkit devices. Their programs may redirect packets before ours see them.
    pub netkit: Vec<String>,
    /// Packets to suspects whose sockets show no Service: they pass; since the datapath was
    /// attached.
    #[serde(default)]
    pub unknown_sockets: u64,
    /// Why the hooks are not in force; none if they are, or if there is no load balancer.
    pub problem: Option<String>,
}

/// The source of the modes in force. `epguard mode` may have been used since.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Display,
    IntoStaticStr,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ModeSource {
    /// A document without the modes, or of another version.
    #[default]
    Unknown,
    /// The agent's own command line.
    Flags,
    /// The mode policy as an earlier agent read it: this one has not read it yet.
    #[serde(rename = "mode policy, read by an earlier agent")]
    #[strum(serialize = "mode policy, read by an earlier agent")]
    Pinned,
    /// The lower of the command line and of the modes that an earlier agent left in the maps: the
    /// API server refuses the mode policy, or it has errors. What cannot be read must not raise a
    /// mode.
    #[serde(rename = "the lower of flags and maps")]
    #[strum(serialize = "the lower of flags and maps")]
    Lower,
    /// The mode policy.
    #[serde(rename = "mode policy")]
    #[strum(serialize = "mode policy")]
    ModePolicy,
    /// The mode policy, because the node is a canary.
    #[serde(rename = "mode policy, canary")]
    #[strum(serialize = "mode policy, canary")]
    Canary,
}

impl ModeSource {
    /// Whether a mode policy has set the modes, even one that can't be read any more: the next
    /// agent starts from them.
    pub const fn is_mode_policy(self) -> bool {
        matches!(
            self,
            Self::Pinned | Self::Lower | Self::ModePolicy | Self::Canary
        )
    }

    /// The name in the status.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The action for denied packets of a reason, and who chose it. A Service may have another one, by
/// annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionInForce {
    /// What is done with a denied packet.
    pub action: Action,
    /// Source of the action.
    #[serde(deserialize_with = "lenient::value")]
    pub source: ActionSource,
}

/// The source of an action in force.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Display,
    IntoStaticStr,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ActionSource {
    /// A document of another version.
    #[default]
    Unknown,
    /// The agent's own command line.
    Flags,
    /// The mode policy as an earlier agent read it: this one has not read it yet, or cannot.
    #[serde(rename = "mode policy, read by an earlier agent")]
    #[strum(serialize = "mode policy, read by an earlier agent")]
    Pinned,
    /// The mode policy.
    #[serde(rename = "mode policy")]
    #[strum(serialize = "mode policy")]
    ModePolicy,
    /// The mode policy, because the node is a canary.
    #[serde(rename = "mode policy, canary")]
    #[strum(serialize = "mode policy, canary")]
    Canary,
    /// `epguard action` on the node.
    #[serde(rename = "epguard action")]
    #[strum(serialize = "epguard action")]
    Command,
}

impl ActionSource {
    /// Whether a mode policy has set the action, even one that can't be read any more.
    pub const fn is_mode_policy(self) -> bool {
        matches!(self, Self::Pinned | Self::ModePolicy | Self::Canary)
    }
}

/// For a mode that cannot be read.
pub(super) const UNKNOWN: &str = "unknown";

/// Writes a mode, or [`UNKNOWN`].
#[expect(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
pub(super) fn mode_or_unknown<S: Serializer>(
    mode: &Option<Mode>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.serialize_str(mode.map_or(UNKNOWN, Mode::as_str))
}

/// Describes that.
pub(super) fn mode_schema(_: &mut SchemaGenerator) -> Schema {
    let names = Mode::ALL.map(Mode::as_str).into_iter().chain([UNKNOWN]);
    json_schema!({"type": "string", "enum": names.collect::<Vec<_>>()})
}
