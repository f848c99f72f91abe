//! A scenario file as data. `lab/SCENARIOS.md` describes it for those who write one.

mod call;
mod cast;
mod expectation;
mod step;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::net::{Cni, Overlay};

pub use call::{Call, Sees};
pub use cast::{Kubelet, Namespace, Pod, Service, Wire};
pub use expectation::{Entries, LogLines};
pub use step::{AgentStep, ApiStep, Condition, LeaseStep, Patch, PodEvent, PodStep, ProxyStep, Rounds, Step};

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

/// The story runs once for each combination.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Runs {
    /// Address families.
    pub family: Vec<Family>,
    /// Who makes the calls that name no `from`, and how a Service is reached by them.
    pub caller: Vec<Caller>,
    /// How pods are attached to their node.
    pub cni: Vec<Cni>,
    /// How nodes reach each other's pods.
    pub overlay: Vec<Overlay>,
}

impl Default for Runs {
    fn default() -> Self {
        Self {
            family: vec![Family::Ipv4, Family::Ipv6],
            caller: vec![Caller::Pod],
            cni: vec![Cni::Ptp],
            overlay: vec![Overlay::None],
        }
    }
}

/// The address family of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Every address is IPv4.
    Ipv4,
    /// Every address is IPv6.
    Ipv6,
}

/// Who makes the calls that name no `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caller {
    /// The pod `client` on node-a, through cluster IPs.
    Pod,
    /// A process on node-a itself, through cluster IPs.
    Node,
    /// The host `external`, through the `NodePorts` of node-a.
    Nodeport,
    /// The pod `client`, and the proxy masquerades every Service flow.
    Masquerade,
}

/// How the agent is started.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Agent {
    /// `--mode`; `observe` unless said otherwise, and `check` switches it anyway.
    pub mode: Option<String>,
    /// Whether `retired-backend` is enforced when the mode is; by default it is only observed.
    pub enforce_retired: bool,
    /// `--pod-scope`; the default is the agent's.
    pub pod_scope: Option<String>,
    /// `--xdp`; the default is the agent's.
    pub xdp: Option<String>,
    /// `--lease`, in seconds.
    pub lease: Option<u32>,
    /// `--max-view-age`, in seconds.
    pub max_view_age: Option<u32>,
}

impl Agent {
    /// On node-a.
    pub(crate) fn options(&self) -> super::agent::AgentOptions<'_> {
        super::agent::AgentOptions {
            node: "node-a",
            mode: self.mode.as_deref().unwrap_or("observe"),
            enforce_retired: self.enforce_retired,
            pod_scope: self.pod_scope.as_deref(),
            hooks: None,
            xdp: self.xdp.as_deref(),
            lease: self.lease,
            max_view_age: self.max_view_age,
        }
    }
}
