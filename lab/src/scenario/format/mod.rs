//! A scenario file as data.
#![allow(missing_docs, reason = "lab/SCENARIOS.md documents the keys and words")]

/// Enums of words, which are written in kebab case.
macro_rules! words {
    ($($(#[$of_enum:meta])* $name:ident { $($(#[$of_word:meta])* $word:ident),* })*) => {$(
        $(#[$of_enum])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Display)]
        #[serde(rename_all = "kebab-case")]
        #[strum(serialize_all = "kebab-case")]
        pub enum $name { $($(#[$of_word])* $word),* }
    )*};
}

mod call;
mod cast;
mod runs;
mod step;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::Spanned;

pub use call::{Action, Burst, BurstCaller, Call, ForbiddenIn, Group, Sees};
pub use cast::{First, Forbidden, Kubelet, Namespace, Neighbour, Pod, Service, Wire};
pub use runs::{Caller, Family, Runs};
pub use step::{
    AgentStep, ApiStep, CgroupEvent, Condition, Entries, EventOf, LeaseStep, NeighbourStep, Patch, PodEvent,
    ProxyStep, Rounds, Show, SocketLbStep, Step, Writers,
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

/// A default.
fn number<const N: u16, T: From<u16>>() -> T {
    N.into()
}
