//! The agents of a cluster: the pods of the `DaemonSet`, one for each node.

use super::nodes::Missing;
use super::scope::{Form, Scope};
use crate::shared::plain;
use crate::watch::refused;
use anyhow::{Result, anyhow, ensure};
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use kube::api::{Api, ListParams};
use kube::core::PartialObjectMeta;
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;
use tokio::time::timeout;

/// The label of the agents' pods, as in `deploy/base/daemonset.yaml`.
pub(super) const LABEL: &str = "app.kubernetes.io/name=epguard";
/// The name of the agent's container there. A pod without one is asked in its first container.
const CONTAINER: &str = "agent";
/// Objects in a page, as in client-go.
const PAGE: u32 = 500;
/// Longest wait for a page, or for another answer of the API server.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Nodes with another value run no `DaemonSet`.
const OS: (&str, &str) = ("kubernetes.io/os", "linux");
/// Nor do those with this one.
const VIRTUAL: (&str, &str) = ("type", "virtual-kubelet");

/// An agent, as the API shows its pod.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Name of its node.
    pub node: String,
    /// Name of its pod.
    pub pod: String,
    /// The container that the agent runs in.
    pub container: String,
    /// Whether the pod is ready. Others are asked last, as they may not answer.
    ready: bool,
    /// Why no command can run in the pod; none if one can.
    pub obstacle: Option<String>,
    /// Image, arguments and environment of the agent.
    pub flags: Vec<String>,
    /// The `ConfigMap` of modes that the agent watches, `namespace/name`.
    pub config_map: Option<String>,
}

/// A Node's name and labels.
pub type Labelled = PartialObjectMeta<Node>;

/// A cluster, and its agents in the order in which they are asked.
pub struct Fleet {
    /// A client of the cluster's API server.
    pub client: Client,
    /// The flags that choose the cluster and the nodes.
    pub scope: Scope,
    /// The agents that the flags choose.
    pub agents: Vec<Agent>,
    /// Nodes that should have an agent's pod by the flags, and have none.
    pub missing: Vec<Missing>,
    /// All Nodes; in words why not, if they may not be listed.
    pub nodes: Result<Vec<Labelled>, String>,
    /// Names of all Nodes that should have an agent by their labels, and had no pod of one; empty if nodes are chosen.
    pub without_agent: Vec<String>,
}

impl Fleet {
    /// Lists the agents and the Nodes. Errors: agents cannot be listed, or there are none.
    pub async fn find(scope: &Scope) -> Result<Self> {
        let mut fleet = Self::of(scope.client().await?, scope.clone());
        fleet.refresh(BTreeSet::new()).await?;
        let nodes = fleet.list_nodes(ListParams::default()).await;
        fleet.nodes = nodes.map_err(|error| error.to_string());
        if fleet.scope.is_whole() {
            let nodes = fleet.nodes.iter().flatten().filter(|node| runs_agents(node));
            fleet.without_agent = nodes.map(Labelled::name_any).filter(|node| !fleet.has(node)).collect();
        }
        Ok(fleet)
    }

    fn of(client: Client, scope: Scope) -> Self {
        Self {
            client,
            scope,
            agents: Vec::new(),
            missing: Vec::new(),
            nodes: Ok(Vec::new()),
            without_agent: Vec::new(),
        }
    }

    /// Lists the agents again. Unless the flags choose nodes, those `expected` should have one. Errors as of [`Self::find`].
    pub async fn refresh(&mut self, expected: BTreeSet<String>) -> Result<()> {
        let namespace = &self.scope.agents_namespace;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let pods = all(pods, ListParams::default().labels(LABEL), self.scope.output).await?;
        let mut agents: Vec<Agent> = pods.iter().filter_map(agent).collect();
        ensure!(
            !agents.is_empty(),
            "no agent runs: namespace {namespace} has no pod with the label {LABEL} on a node; install epguard, or pass --agents-namespace"
        );
        // While a node's agent is replaced, the pod that can be asked counts.
        agents.sort_by_key(|agent| (agent.node.clone(), agent.obstacle.is_some(), !agent.ready));
        agents.dedup_by(|other, first| other.node == first.node);
        agents.sort_by_key(|agent| !agent.ready);
        self.agents = agents;
        if let Some(selector) = &self.scope.selector {
            let nodes = self.list_nodes(ListParams::default().labels(selector)).await?;
            ensure!(!nodes.is_empty(), "no node has the labels {selector}");
            self.choose(nodes.iter().map(Labelled::name_any).collect());
        } else if !self.scope.is_whole() {
            self.choose(self.scope.nodes.iter().cloned().collect());
        } else {
            self.expect(expected);
        }
        Ok(())
    }

    async fn list_nodes(&self, params: ListParams) -> Result<Vec<Labelled>> {
        all(Api::all(self.client.clone()), params, self.scope.output).await
    }

    /// Leaves only the agents of these nodes.
    pub fn choose(&mut self, nodes: BTreeSet<String>) {
        self.agents.retain(|agent| nodes.contains(&agent.node));
        self.without_agent.clear();
        self.expect(nodes);
    }

    fn expect(&mut self, nodes: BTreeSet<String>) {
        let without = nodes.into_iter().filter(|node| !self.has(node));
        self.missing = without.map(Missing::without_agent).collect();
    }

    /// Only the first agent.
    pub fn first(&self) -> Self {
        let agents = self.agents.first().into_iter().cloned().collect();
        Self { agents, ..Self::of(self.client.clone(), self.scope.clone()) }
    }

    /// Names of the nodes whose agents the flags choose.
    pub fn names(&self) -> Vec<&str> {
        self.agents.iter().map(|agent| agent.node.as_str()).collect()
    }

    /// The `ConfigMap` of modes that most agents watch; none if they watch none.
    pub fn config_map(&self) -> Option<String> {
        let mut names: BTreeMap<&String, usize> = BTreeMap::new();
        for name in self.agents.iter().filter_map(|agent| agent.config_map.as_ref()) {
            *names.entry(name).or_default() += 1;
        }
        // The first of those with as many.
        let most = names.into_iter().rev().max_by_key(|(_, agents)| *agents);
        most.map(|(name, _)| name.clone())
    }

    fn has(&self, node: &str) -> bool {
        self.agents.iter().any(|agent| agent.node == node)
    }
}

/// Lists everything, page by page. For people, each text is made plain: a kubelet writes some of them. Errors name the cause and the
/// remedy.
pub async fn all<K>(api: Api<K>, params: ListParams, form: Form) -> Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug,
{
    let resource = &K::plural(&());
    let mut params = params.limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let page = timeout(PATIENCE, api.list(&params)).await.map_err(|_| {
            anyhow!("cannot list {resource}: the API server does not answer; see whether the kubeconfig's server is right")
        })?;
        let page = page.map_err(|error| anyhow!(refused(resource, error).error))?;
        objects.extend(page.items);
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            break;
        }
    }
    if form.is_for_people() {
        let mut document = serde_json::to_value(&objects)?;
        plain::all(&mut document);
        objects = serde_json::from_value(document)?;
    }
    Ok(objects)
}

fn runs_agents(node: &Labelled) -> bool {
    let has = |(label, value): (&str, &str)| node.labels().get(label).is_some_and(|is| is == value);
    has(OS) && !has(VIRTUAL)
}

/// None for a pod that no node has taken.
fn agent(pod: &Pod) -> Option<Agent> {
    let spec = pod.spec.as_ref()?;
    let mut containers = spec.containers.iter();
    let named = containers.find(|container| container.name == CONTAINER);
    let container = named.or(spec.containers.first())?;
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    Some(Agent {
        node: spec.node_name.clone()?,
        pod: pod.name_any(),
        container: container.name.clone(),
        ready: conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        obstacle: obstacle(pod, &container.name),
        flags: flags(container),
        config_map: config_map(container),
    })
}

/// Why no command can run: the container's state, in the kubelet's words.
fn obstacle(pod: &Pod, container: &str) -> Option<String> {
    let status = pod.status.as_ref()?;
    let mut statuses = status.container_statuses.iter().flatten();
    let own = statuses.find(|status| status.name == container);
    let Some(state) = own.and_then(|status| status.state.as_ref()) else {
        let phase = status.phase.as_deref().unwrap_or("Unknown");
        return (phase != "Running").then(|| format!("its pod is {phase}"));
    };
    let why = match (&state.waiting, &state.terminated) {
        (Some(waiting), _) => waiting.reason.as_deref(),
        (_, Some(terminated)) => terminated.reason.as_deref(),
        (None, None) => return None,
    };
    let why = why.unwrap_or("not running");
    Some(format!("its container does not run: {why}"))
}

fn flags(container: &Container) -> Vec<String> {
    let variables = container.env.iter().flatten();
    let variables = variables.filter_map(|one| Some(format!("{}={}", one.name, one.value.as_ref()?)));
    let flags = container.image.iter().chain(container.args.iter().flatten()).cloned();
    flags.chain(variables).collect()
}

fn config_map(container: &Container) -> Option<String> {
    let mut arguments = container.args.iter().flatten();
    let flag = arguments.find_map(|argument| argument.strip_prefix("--fleet-config"))?;
    let value = flag.strip_prefix('=').or(arguments.next().map(String::as_str))?;
    // As the kubelet does.
    let variables = container.env.iter().flatten();
    Some(variables.fold(value.to_owned(), |text, one| match &one.value {
        Some(value) => text.replace(&format!("$({})", one.name), value),
        None => text,
    }))
}
