//! The events of a story: one step is a map with one key.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::de::Error as _;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::{Burst, Call, CgroupStep, Entries, LogLines, NeighbourStep, Show, SocketLbStep};
use crate::api::Kind;

/// One step of a story.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Events of pods, on the node and in the API: `A starts`.
    Pods(Vec<PodStep>),
    /// Sets the endpoints in the `EndpointSlice` of a Service.
    Slices(BTreeMap<String, BTreeMap<String, Condition>>),
    /// Changes the proxy's rules. Without this step they stay as they are, even when the API changes.
    Proxy(ProxyStep),
    /// Creates or replaces objects, status included.
    Apply(Vec<Value>),
    /// Merges into an object.
    Patch(Patch),
    /// Deletes objects at once, `Kind namespace/name`.
    Delete(Vec<String>),
    /// Calls, first in `observe`, then again in `enforce`.
    Check(Vec<Spanned<Call>>),
    /// As `check`; the calls take turns.
    Interleave(Rounds),
    /// Calls, first in `off`, then in `observe`, then in `enforce`.
    EveryMode(Vec<Spanned<Call>>),
    /// Calls before the agent is started.
    BeforeEpguard(Vec<Spanned<Call>>),
    /// Calls in `off`.
    Off(Vec<Spanned<Call>>),
    /// Calls in `observe`.
    Observe(Vec<Spanned<Call>>),
    /// Calls in `enforce`.
    Enforce(Vec<Spanned<Call>>),
    /// Calls of many clients at the same time.
    Burst(Burst),
    /// A command of `epguard`: `mode enforce`.
    Epguard(String),
    /// For readers: a part of the story begins.
    Heading(String),
    /// For readers.
    Say(String),
    /// For readers who want to know more.
    Note(String),
    /// For readers: what there is now.
    Show(Show),
    /// What `bpftool map dump` shows, by map.
    Maps(BTreeMap<String, Entries>),
    /// Expected output of `epguard dump -o json`, by table.
    Dump(BTreeMap<String, Entries>),
    /// Expected lines of the agent's log.
    Log(LogLines),
    /// Kills or starts the agent's process.
    Agent(AgentStep),
    /// An event of the neighbour.
    Neighbour(NeighbourStep),
    /// An event of the load balancer at sockets, where the caller has one.
    SocketLb(SocketLbStep),
    /// Makes and removes cgroups of node-a, where the caller has a load balancer at sockets.
    Cgroups(Vec<CgroupStep>),
    /// The API server goes away, stalls, or comes back.
    Api(ApiStep),
    /// Waits until the agent's lease is as named.
    Lease(LeaseStep),
    /// Two writers change the agent's modes and actions at the same time.
    Writers(Writers),
}

/// Commands and versions of the `ConfigMap`, each in order and both at the same time, in every round.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Writers {
    /// Number of rounds.
    pub rounds: u32,
    /// Arguments of `epguard`: `action reject`.
    pub commands: Vec<String>,
    /// Data of the `ConfigMap` that `fleet-config` names.
    pub config_map: Vec<BTreeMap<String, String>>,
}

impl Step {
    /// The calls of the step, if it makes any.
    #[must_use]
    pub fn calls(&self) -> &[Spanned<Call>] {
        match self {
            Self::Check(calls)
            | Self::EveryMode(calls)
            | Self::BeforeEpguard(calls)
            | Self::Off(calls)
            | Self::Observe(calls)
            | Self::Enforce(calls) => calls,
            Self::Interleave(rounds) => &rounds.calls,
            _ => &[],
        }
    }
}

/// An event of the agent's process.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentStep {
    /// SIGKILL.
    Killed,
    /// Started anew with the same command line.
    Started,
}

/// Calls that take turns.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Rounds {
    /// How often each call is made.
    pub rounds: u32,
    /// One after the other in each round.
    pub calls: Vec<Spanned<Call>>,
}

/// A change to one object.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Patch {
    /// `Kind namespace/name`.
    pub of: String,
    /// A JSON merge patch.
    pub merge: Value,
}

/// A change of the proxy's rules.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected sync, or a list of pods for each Service (namespace/name)"
)]
pub enum ProxyStep {
    /// To those that kube-proxy would make of Services and `EndpointSlices` now.
    Sync(Sync),
    /// Exactly these backends for these Services; the others keep theirs.
    Set(BTreeMap<String, Vec<String>>),
}

/// An event of the API server. The objects behind it go on changing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApiStep {
    /// Connections break, and new ones are refused.
    Away,
    /// Connections stay open, without any answer.
    Stalled,
    /// Watches of this kind send nothing, while all other requests are answered.
    WatchStalled(#[serde(deserialize_with = "kind")] Kind),
    /// It serves again.
    Back,
}

fn kind<'de, D: Deserializer<'de>>(from: D) -> Result<Kind, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

/// The state of the agent's lease to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseStep {
    /// The kernel denies nothing any more.
    Over,
    /// The kernel may deny.
    Held,
}

/// The word `sync`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sync {
    /// The only value.
    Sync,
}

/// State of an endpoint in a slice (ready, serving, terminating).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// true, true, false.
    Ready,
    /// false, false, false.
    NotReady,
    /// true, false, false: not ready, but the Service publishes not-ready addresses.
    Published,
    /// false, true, true: terminating and still serving (KEP-1669).
    Terminating,
    /// false, false, true.
    TerminatingNotServing,
}

impl Condition {
    /// Ready, serving, terminating.
    #[must_use]
    pub fn flags(self) -> [bool; 3] {
        match self {
            Self::Ready => [true, true, false],
            Self::NotReady => [false, false, false],
            Self::Published => [true, false, false],
            Self::Terminating => [false, true, true],
            Self::TerminatingNotServing => [false, false, true],
        }
    }
}

/// An event of a pod, written `A starts`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PodStep {
    /// The pod, by its name in the story.
    pub pod: String,
    /// The event.
    pub event: PodEvent,
}

impl TryFrom<String> for PodStep {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [pod, event] = words[..] else {
            return Err(format!(
                "{text:?} is not a pod and what happens to it, as in `A starts`"
            ));
        };
        Ok(Self {
            pod: pod.into(),
            event: event.parse()?,
        })
    }
}

/// Events of a pod, on its node and in the API. `lab/SCENARIOS.md` has the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PodEvent {
    /// Created, bound to its node, noticed by the kubelet: Pending, without IP.
    Scheduled,
    /// The CNI attaches its address, its server answers, and the kubelet reports `PodReadyToStartContainers`. No IP in the API.
    SandboxUp,
    /// As `sandbox-up`, on the node alone: the API shows none of it, maybe not even the pod.
    Plugged,
    /// Running, Ready and with its IP in the API.
    Published,
    /// The three above.
    Starts,
    /// Ready turns False.
    Unready,
    /// Ready turns True.
    Ready,
    /// Its process ends, its address still answers pings: Ready turns False, the container is terminated, the phase stays Running.
    Exits,
    /// The CNI removes its interface and address; no change in the API.
    SandboxDown,
    /// Exits, loses its sandbox, then the kubelet reports phase Succeeded.
    Succeeds,
    /// The same with phase Failed.
    Fails,
    /// Phase Failed in the API while its container runs on and Ready stays True: a kubelet before 1.27 that shuts its node down.
    FailsEarly,
    /// `PodGC` writes phase Failed without a report from its node; no change on the node.
    FailedByPodgc,
    /// Its node has restarted: the kubelet reports that container and sandbox have ended. Then it starts the pod again, with
    /// the same address, without any report to the API.
    Rebooted,
    /// It gets a deletionTimestamp, and keeps running.
    Deleting,
    /// The object is deleted, with its last state; no change on the node.
    Gone,
    /// A graceful deletion from beginning to end.
    Stops,
    /// The object is deleted at once; no change on the node.
    ForceDeleted,
    /// The object appears, Running and with its IP; no change on the node.
    Appears,
    /// It gets a new sandbox, with the address `next-ip`. The API still shows the old one until it is `published`.
    NewSandbox,
}

impl FromStr for PodEvent {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let word: StrDeserializer<'_, ValueError> = serde::de::IntoDeserializer::into_deserializer(word);
        Self::deserialize(word).map_err(|error| error.to_string())
    }
}
