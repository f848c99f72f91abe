//! A scenario file as data. `lab/SCENARIOS.md` describes it for authors.

mod burst;
mod call;
mod cast;
mod expectation;
mod neighbour;
mod runs;
mod show;
mod socket_lb;
mod step;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::Spanned;

pub use burst::{Burst, Caller as BurstCaller, Group};
pub use call::{Action, Call, Sees};
pub use cast::{Kubelet, Namespace, Pod, Service, Wire};
pub use expectation::{Entries, LogLines};
pub use neighbour::{First, Forbidden, ForbiddenIn, Neighbour, NeighbourStep};
pub use runs::{Caller, Family, Runs};
pub use show::Show;
pub use socket_lb::{CgroupEvent, CgroupStep, SocketLbStep};
pub use step::{
    AgentStep, ApiStep, Condition, LeaseStep, Patch, PodEvent, PodStep, ProxyStep, Rounds, Step, Writers,
};

/// One story.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    /// Short name, as the report shows it.
    pub id: String,
    /// The events, in one line.
    pub title: String,
    /// The sources of the story: issues, KEPs, recordings.
    #[serde(default)]
    pub tells: Vec<String>,
    /// The required behaviour, in prose.
    pub must: String,
    /// The variants that the story is run in.
    #[serde(default)]
    pub runs: Runs,
    /// How the agent is started.
    #[serde(default)]
    pub agent: Agent,
    /// Another program beside epguard's.
    #[serde(default)]
    pub neighbour: Option<Neighbour>,
    /// Pods by their names in the story.
    #[serde(default)]
    pub pods: BTreeMap<String, Pod>,
    /// Namespaces with annotations, by name; all Namespaces that the story names exist from the start.
    #[serde(default)]
    pub namespaces: BTreeMap<String, Namespace>,
    /// Services by `namespace/name`; they exist from the start.
    #[serde(default)]
    pub services: BTreeMap<String, Service>,
    /// The events, in order.
    pub steps: Vec<Spanned<Step>>,
}

/// How the agent is started.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Agent {
    /// `--mode`; `observe` unless given. `check` switches it anyway.
    pub mode: Option<String>,
    /// Whether `retired-backend` follows the mode; by default it is only observed.
    pub enforce_retired: bool,
    /// `--xdp`; the default is the agent's.
    pub xdp: Option<String>,
    /// `--lease`, in seconds.
    pub lease: Option<u32>,
    /// `--max-view-age`, in seconds.
    pub max_view_age: Option<u32>,
    /// `--intent-carrier`; the default is the agent's.
    pub intent_carrier: Option<String>,
    /// `--action`: `drop`, `reject` or `capture`; none: the value in `runs`.
    pub action: Option<Action>,
    /// `--fleet-config`, `namespace/name` of a `ConfigMap`; the default is the agent's.
    pub fleet_config: Option<String>,
    /// Whether the agent starts only at the step `agent: started`.
    pub later: bool,
}
