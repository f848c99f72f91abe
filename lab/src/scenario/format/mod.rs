//! A scenario file as data. `lab/SCENARIOS.md` describes it for those who write one.

mod call;
mod cast;
mod expectation;
mod neighbour;
mod runs;
mod step;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::Spanned;

pub use call::{By, Call, Sees};
pub use cast::{Kubelet, Namespace, Pod, Service, Wire};
pub use expectation::{Entries, LogLines};
pub use neighbour::{First, Forbidden, ForbiddenIn, Neighbour, NeighbourStep};
pub use runs::{Action, Caller, Family, Runs};
pub use step::{
    AgentStep, ApiStep, Condition, LeaseStep, Patch, PodEvent, PodStep, ProxyStep, Rounds, Step, Writers,
};

/// One story.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    /// Short name, as the report shows it.
    pub id: String,
    /// What happens, in one line.
    pub title: String,
    /// Where the story comes from: issues, KEPs, recordings.
    #[serde(default)]
    pub tells: Vec<String>,
    /// What has to hold, in prose.
    pub must: String,
    /// The variants that the story is told in.
    #[serde(default)]
    pub runs: Runs,
    /// How the agent is started.
    #[serde(default)]
    pub agent: Agent,
    /// Another program beside epguard's.
    #[serde(default)]
    pub neighbour: Option<Neighbour>,
    /// Pods by the name that the story calls them.
    #[serde(default)]
    pub pods: BTreeMap<String, Pod>,
    /// Namespaces by name, where there is something to say about them; all that the story names exist from the start.
    #[serde(default)]
    pub namespaces: BTreeMap<String, Namespace>,
    /// Services by `namespace/name`; they exist from the start.
    #[serde(default)]
    pub services: BTreeMap<String, Service>,
    /// What happens, in order.
    pub steps: Vec<Spanned<Step>>,
}

/// How the agent is started.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Agent {
    /// `--mode`; `observe` unless said otherwise, and `check` switches it anyway.
    pub mode: Option<String>,
    /// Whether `retired-backend` is enforced when the mode is; by default it is only observed.
    pub enforce_retired: bool,
    /// `--xdp`; the default is the agent's.
    pub xdp: Option<String>,
    /// `--lease`, in seconds.
    pub lease: Option<u32>,
    /// `--max-view-age`, in seconds.
    pub max_view_age: Option<u32>,
    /// `--intent-carrier`; the default is the agent's.
    pub intent_carrier: Option<String>,
    /// `--action`: `drop`, `reject` or `capture`; none: what `runs` says.
    pub action: Option<Action>,
    /// `--fleet-config`, `namespace/name` of a `ConfigMap`; the default is the agent's.
    pub fleet_config: Option<String>,
}

impl Agent {
    /// On node-a.
    pub(crate) fn options(&self) -> super::agent::AgentOptions<'_> {
        super::agent::AgentOptions {
            node: "node-a",
            mode: self.mode.as_deref().unwrap_or("observe"),
            enforce_retired: self.enforce_retired,
            hooks: None,
            xdp: self.xdp.as_deref(),
            lease: self.lease,
            max_view_age: self.max_view_age,
            intent_carrier: self.intent_carrier.as_deref(),
            action: None,
            fleet_config: self.fleet_config.as_deref(),
        }
    }
}
