//! The events of a story: one step is a map with one key.

use std::collections::BTreeMap;
use std::time::Duration;

use epguard_common::Mode;
use serde::de::value::{Error as WordError, StrDeserializer};
use serde::de::{DeserializeOwned, Error as _, IntoDeserializer as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_saphyr::Spanned;
use strum::Display;

use super::{Burst, Call};
use crate::api::Kind;

/// One step of a story.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    Pods(Vec<EventOf<PodEvent>>),
    Slices(BTreeMap<String, BTreeMap<String, Condition>>),
    Proxy(ProxyStep),
    HostPorts(BTreeMap<u16, String>),
    Servers(Vec<EventOf<ServerEvent>>),
    Addresses(Vec<EventOf<AddressEvent>>),
    Apply(Vec<Value>),
    Patch(Patch),
    Delete(Vec<String>),
    Check(Vec<Spanned<Call>>),
    Interleave(Rounds),
    EveryMode(Vec<Spanned<Call>>),
    BeforeEpguard(Vec<Spanned<Call>>),
    Off(Vec<Spanned<Call>>),
    Observe(Vec<Spanned<Call>>),
    Enforce(Vec<Spanned<Call>>),
    Burst(Burst),
    Epguard(String),
    Heading(String),
    Say(String),
    Note(String),
    Show(Show),
    Maps(BTreeMap<String, Entries>),
    Dump(BTreeMap<String, Entries>),
    /// Each is a list of texts that one line of the agent's log contains, in any order.
    Log(Vec<Vec<String>>),
    Output(Output),
    Agent(AgentStep),
    Neighbour(NeighbourStep),
    SocketLb(SocketLbStep),
    Cgroups(Vec<EventOf<CgroupEvent>>),
    Api(ApiStep),
    Lease(LeaseStep),
    Writers(Writers),
}

/// Commands and versions of the `ConfigMap`, each in order and both at the same time, in every
/// round.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Writers {
    pub rounds: u32,
    pub commands: Vec<String>,
    pub mode_policy: Vec<BTreeMap<String, String>>,
}

/// Calls that a step makes in each of these modes, so many times.
pub struct CallsInModes<'a> {
    pub modes: &'static [Mode],
    pub rounds: u32,
    pub calls: &'a [Spanned<Call>],
}

impl Step {
    /// The calls of the step; none if it makes none.
    pub fn calls(&self) -> CallsInModes<'_> {
        let (modes, calls): (&'static [Mode], &[Spanned<Call>]) = match self {
            Self::Check(calls) | Self::Interleave(Rounds { calls, .. }) => {
                (&[Mode::Observe, Mode::Enforce], calls)
            }
            Self::EveryMode(calls) => (&[Mode::Off, Mode::Observe, Mode::Enforce], calls),
            Self::BeforeEpguard(calls) => (&[], calls),
            Self::Off(calls) => (&[Mode::Off], calls),
            Self::Observe(calls) => (&[Mode::Observe], calls),
            Self::Enforce(calls) => (&[Mode::Enforce], calls),
            _ => (&[], &[]),
        };
        let rounds = match self {
            Self::Interleave(interleaved) => interleaved.rounds,
            _ => 1,
        };
        CallsInModes {
            modes,
            rounds,
            calls,
        }
    }

    /// All waits whose length the step gives, in seconds.
    pub fn waits(&self) -> Vec<f32> {
        match self {
            Self::Maps(tables) | Self::Dump(tables) => tables
                .values()
                .filter_map(|entries| entries.seconds)
                .collect(),
            _ => self
                .calls()
                .calls
                .iter()
                .filter_map(|call| call.value.within)
                .collect(),
        }
    }
}

/// A command of epguard, and texts that its output contains, or must not contain.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Output {
    pub of: String,
    #[serde(default)]
    pub has: Vec<String>,
    #[serde(default)]
    pub lacks: Vec<String>,
}

/// Expected entries of a table. An expected object matches an entry that has at least its fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Entries {
    pub has: Vec<Value>,
    pub lacks: Vec<Value>,
    pub count: Option<usize>,
    pub claim: Option<String>,
    #[serde(rename = "for")]
    pub seconds: Option<f32>,
}

impl Entries {
    /// How long they must hold once they do.
    pub fn hold(&self) -> Duration {
        let is_negative = self.has.is_empty() && self.count.unwrap_or_default() == 0;
        let default = if is_negative { ABSENT } else { Duration::ZERO };
        self.seconds.map_or(default, Duration::from_secs_f32)
    }
}

/// How long must be absent what is expected to be: it may still come, as a second list takes half a
/// second to agree with a denial.
pub const ABSENT: Duration = Duration::from_secs(1);

/// Calls that take turns.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Rounds {
    pub rounds: u32,
    pub calls: Vec<Spanned<Call>>,
}

/// A change to one object.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Patch {
    pub of: String,
    pub merge: Value,
}

/// A change of the proxy's rules.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected sync, or a list of pods for each Service (namespace/name)"
)]
pub enum ProxyStep {
    Sync(Sync),
    Set(BTreeMap<String, Vec<String>>),
}

/// An event of the API server. The objects behind it go on changing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApiStep {
    Away,
    Stalled,
    Cached,
    WatchStalled(#[serde(deserialize_with = "kind")] Kind),
    Back,
}

fn kind<'de, D: Deserializer<'de>>(from: D) -> Result<Kind, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

words! {
    /// What readers are shown.
    Show { Objects, Calls, Maps, Fleet }

    /// An event of the agent's process.
    AgentStep { Killed, Started }

    /// The state of the agent's lease to wait for.
    LeaseStep { Over, Held }

    /// The word `sync`.
    Sync { Sync }

    /// State of an endpoint in a slice (ready, serving, terminating).
    Condition { Ready, NotReady, Published, Terminating, TerminatingNotServing }

    /// An event of the neighbour.
    NeighbourStep { Starts, Restarts, Killed, Stops }

    /// An event of the load balancer.
    SocketLbStep { Starts, Restarts, Resizes, ChangesFlags, Stops }

    /// An event of a cgroup in the root.
    CgroupEvent { Made, Removed }

    /// An event of a node's process.
    ServerEvent { Starts, Ends }

    /// An event of an address at an interface of node-a.
    AddressEvent { Added, Removed }

    /// An event of a pod, on its node and in the API. `lab/SCENARIOS.md` has the table.
    PodEvent {
        Scheduled, SandboxUp, Plugged, Published, Starts, Unready, Ready, Exits, SandboxDown, Succeeds, Fails,
        FailsEarly, FailedByPodgc, Rebooted, Deleting, Gone, Stops, ForceDeleted, Appears, NewSandbox
    }
}

impl Condition {
    /// Ready, serving, terminating.
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

/// An event of a pod, process, address or cgroup, written `A starts`, `batch.slice made`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String", bound = "E: DeserializeOwned")]
pub struct EventOf<E> {
    pub name: String,
    pub event: E,
}

impl<E: DeserializeOwned> TryFrom<String> for EventOf<E> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [name, event] = words[..] else {
            return Err(format!(
                "{text:?} is not a name and an event, as in `A starts`"
            ));
        };
        // The error lists the events there are.
        let word: StrDeserializer<'_, WordError> = event.into_deserializer();
        let event = E::deserialize(word).map_err(|error| error.to_string())?;
        Ok(Self {
            name: name.into(),
            event,
        })
    }
}
