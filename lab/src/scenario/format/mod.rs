//! A scenario file as data.
#![allow(missing_docs, reason = "lab/SCENARIOS.md documents the keys and words")]

mod burst;
mod call;
mod cast;
mod neighbour;
mod runs;
mod socket_lb;
mod step;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};
use serde_saphyr::Spanned;

pub use burst::{Burst, Caller as BurstCaller, Group};
pub use call::{Action, Call, Sees};
pub use cast::{Kubelet, Namespace, Pod, Service, Wire};
pub use neighbour::{First, Forbidden, ForbiddenIn, Neighbour, NeighbourStep};
pub use runs::{Caller, Family, Runs};
pub use socket_lb::{CgroupEvent, CgroupStep, SocketLbStep};
pub use step::{
    AgentStep, ApiStep, Condition, Entries, LeaseStep, LogLines, Patch, PodEvent, PodStep, ProxyStep, Rounds,
    Show, Step, Writers,
};

/// One story.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    pub id: String,
    pub title: String,
    #[serde(default)]
    pub tells: Vec<String>,
    pub must: String,
    #[serde(default)]
    pub runs: Runs,
    #[serde(default)]
    pub agent: Agent,
    #[serde(default)]
    pub neighbour: Option<Neighbour>,
    #[serde(default)]
    pub pods: BTreeMap<String, Pod>,
    #[serde(default)]
    pub namespaces: BTreeMap<String, Namespace>,
    #[serde(default)]
    pub services: BTreeMap<String, Service>,
    pub steps: Vec<Spanned<Step>>,
}

/// How the agent is started.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Agent {
    pub mode: Option<String>,
    pub enforce_retired: bool,
    pub xdp: Option<String>,
    pub lease: Option<u32>,
    pub max_view_age: Option<u32>,
    pub action: Option<Action>,
    pub fleet_config: Option<String>,
    pub later: bool,
}

/// A word of a text; the error lists the words there are.
fn word<'a, T: Deserialize<'a>>(word: &'a str) -> Result<T, String> {
    let word: StrDeserializer<'_, Error> = word.into_deserializer();
    T::deserialize(word).map_err(|error| error.to_string())
}
