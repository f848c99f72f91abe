//! The agents of a cluster: the pods of the `DaemonSet`, one for each node.

use super::scope::Scope;
use anyhow::{Context as _, Result, anyhow, ensure};
use epguard_client::shared::client::{self, ApiServer};
use epguard_client::shared::plain;
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use kube::api::{Api, ListParams};
use kube::core::PartialObjectMeta;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;
use tokio::time::timeout;

/// The label of the agents' pods, as in `deploy/epguard.yaml`.
pub(crate) const LABEL: &str = "app.kubernetes.io/name=epguard";
/// The name of the agent's container there. A pod without one is asked in its first container.
const CONTAINER: &str = "agent";
/// Longest wait for an answer of the API server.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The remedy where no answer comes.
const UNREACHABLE: &str =
    "see whether the server is right and reachable from here (network, VPN, proxy)";
/// The labels of nodes on which the chart runs agents.
const NODES: &str =
    "kubernetes.io/os=linux,type!=virtual-kubelet,eks.amazonaws.com/compute-type!=fargate";

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
    /// The image of its container, if it shows one.
    pub image: Option<String>,
    /// The mode policy that the agent watches, `namespace/name`.
    pub mode_policy: Option<String>,
}

/// A node that did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingNode {
    /// Name of the node.
    pub node: String,
    /// The cause; a node may have written it.
    pub why: String,
    /// What it lacks.
    #[serde(skip)]
    pub lack: Lack,
}

/// What a missing node lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// An answer of its agent.
    Answer,
    /// An agent.
    Agent,
    /// An agent, and perhaps the Node: Nodes may not be listed.
    AgentOrNode,
}

/// Why a node is missing that has no pod of an agent.
pub const NO_AGENT: &str = "no agent runs there";
/// What to do about it.
pub const NO_AGENT_REMEDY: &str =
    "see the Events of the DaemonSet, its nodeSelector and tolerations";

impl MissingNode {
    /// A node that has no pod of an agent.
    pub fn without_agent(node: String) -> Self {
        Self {
            node,
            why: NO_AGENT.to_owned(),
            lack: Lack::Agent,
        }
    }

    /// A node whose agent gave no answer.
    pub fn without_answer(node: String, why: String) -> Self {
        Self {
            node,
            why,
            lack: Lack::Answer,
        }
    }

    /// A node that has no pod of an agent, where Nodes may not be listed: why not.
    pub fn perhaps_unknown(node: String, why: &str) -> Self {
        Self {
            node,
            why: format!(
                "no agent's pod is there, and whether the cluster has such a node is not known: {why}"
            ),
            lack: Lack::AgentOrNode,
        }
    }
}

/// A cluster, and its agents in the order in which they are asked.
#[derive(Clone)]
pub struct Fleet {
    /// A client of the cluster's API server.
    pub client: Client,
    /// The flags that choose the cluster and the nodes.
    pub scope: Scope,
    /// The agents that the flags choose.
    pub agents: Vec<Agent>,
    /// Nodes that should have an agent's pod by the flags, and have none.
    pub missing: Vec<MissingNode>,
    /// Nodes that should have an agent by their labels, and had no pod of one; none if nodes are
    /// chosen. In words why not, if Nodes may not be listed.
    pub without_agent: Result<Vec<String>, String>,
    /// Why it is not known whether chosen nodes exist; none if it is known.
    unlisted: Option<String>,
    /// Whether a line on standard error counts the nodes that have answered.
    pub shows_progress: bool,
}

#[cfg(test)]
impl Agent {
    /// The agent of a node, which runs.
    pub fn sample(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            pod: format!("epguard-{node}"),
            container: CONTAINER.to_owned(),
            ready: true,
            obstacle: None,
            flags: Vec::new(),
            image: None,
            mode_policy: None,
        }
    }
}

impl Fleet {
    /// Lists the agents and the Nodes. Errors: agents cannot be listed, there are none, or a node
    /// that the flags name does not exist.
    pub async fn find(scope: Scope) -> Result<Self> {
        let ApiServer { client, name } = ApiServer::connect(&scope.cluster).await?;
        let mut fleet = Self {
            client,
            scope,
            agents: Vec::new(),
            missing: Vec::new(),
            without_agent: Ok(Vec::new()),
            unlisted: None,
            shows_progress: true,
        };
        fleet
            .refresh(BTreeSet::new())
            .await
            .with_context(|| name.clone())?;
        fleet.refuse_unknown_nodes().await.context(name)?;
        if fleet.scope.is_whole() {
            let nodes = fleet
                .list_nodes(NODES)
                .await
                .map_err(|error| error.to_string());
            fleet.without_agent = nodes.map(|all| {
                all.into_iter()
                    .filter(|node| !fleet.has_agent_on(node))
                    .collect()
            });
        }
        Ok(fleet)
    }

    /// Lists the agents again. Unless the flags choose nodes, those `expected` should have one.
    /// Errors as of [`Self::find`].
    pub async fn refresh(&mut self, expected: BTreeSet<String>) -> Result<()> {
        let namespace = &self.scope.agents_namespace;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let pods = list_objects(pods, ListParams::default().labels(LABEL), &self.scope).await?;
        let mut agents: Vec<Agent> = pods.iter().filter_map(agent_of).collect();
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
            let nodes = self.list_nodes(selector).await?;
            ensure!(!nodes.is_empty(), "no node has the labels {selector}");
            self.choose(nodes);
        } else if !self.scope.is_whole() {
            self.choose(self.scope.nodes.iter().cloned().collect());
        } else {
            self.expect(expected);
        }
        Ok(())
    }

    /// Errors: the user names a node that the cluster does not have. Where Nodes may not be listed,
    /// those without an agent are [`Lack::AgentOrNode`].
    async fn refuse_unknown_nodes(&mut self) -> Result<()> {
        if self.scope.nodes.is_empty() || self.missing.is_empty() {
            return Ok(());
        }
        match self.list_nodes("").await {
            Ok(existing) => {
                let mut unknown: Vec<&str> = self.missing.iter().map(|one| &*one.node).collect();
                unknown.retain(|node| !existing.contains(*node));
                ensure!(
                    unknown.is_empty(),
                    "the cluster has no node {}: `kubectl get nodes` lists them",
                    unknown.join(" or ")
                );
            }
            Err(why) => {
                self.unlisted = Some(format!("{why:#}"));
                self.expect(self.scope.nodes.iter().cloned().collect());
            }
        }
        Ok(())
    }

    /// Names of the Nodes with these labels.
    async fn list_nodes(&self, labels: &str) -> Result<BTreeSet<String>> {
        let api: Api<PartialObjectMeta<Node>> = Api::all(self.client.clone());
        let nodes = list_objects(api, ListParams::default().labels(labels), &self.scope).await?;
        Ok(nodes.iter().map(ResourceExt::name_any).collect())
    }

    /// Leaves only the agents of these nodes.
    pub fn choose(&mut self, nodes: BTreeSet<String>) {
        self.agents.retain(|agent| nodes.contains(&agent.node));
        self.without_agent = Ok(Vec::new());
        self.expect(nodes);
    }

    fn expect(&mut self, nodes: BTreeSet<String>) {
        let mut missing = Vec::new();
        for node in nodes {
            if self.has_agent_on(&node) {
                continue;
            }
            missing.push(match &self.unlisted {
                Some(why) => MissingNode::perhaps_unknown(node, why),
                None => MissingNode::without_agent(node),
            });
        }
        self.missing = missing;
    }

    /// Names of the nodes whose agents the flags choose.
    pub fn node_names(&self) -> Vec<&str> {
        self.agents
            .iter()
            .map(|agent| agent.node.as_str())
            .collect()
    }

    fn has_agent_on(&self, node: &str) -> bool {
        self.agents.iter().any(|agent| agent.node == node)
    }
}

/// Waits for the answer to a request: `what` it does, and the `right` that it needs. Errors: the
/// cause and the remedy, in one line.
pub async fn await_answer<T>(
    scope: &Scope,
    what: &str,
    right: &str,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T> {
    let patience = scope.patience(PATIENCE);
    let answer = timeout(patience, request).await.map_err(|_| {
        let seconds = patience.as_secs();
        anyhow!("{what}: no answer within {seconds} s, so it may have been done; {UNREACHABLE}, or pass a longer --timeout")
    })?;
    answer.map_err(|error| anyhow!(refused(what, right, error)))
}

/// Why a request failed, and the remedy, in one line.
pub fn refused(what: &str, right: &str, error: kube::Error) -> String {
    let (code, cause) = client::cause(error);
    match code {
        401 => format!("cannot {what}: the API server does not accept the credentials; renew them"),
        403 => format!("may not {what} ({cause}): grant the account {right}"),
        404 => format!("cannot {what} ({cause}): if it was deleted meanwhile, run this again"),
        409 => format!("cannot {what}: it was changed meanwhile; run this again"),
        0 => format!("cannot {what}: {cause}; {UNREACHABLE}"),
        _ => format!("cannot {what}: {cause}"),
    }
}

/// Lists everything from the API server's cache. For people, each text is made plain: a kubelet
/// writes some of them. Errors as of [`await_answer`].
pub async fn list_objects<K>(api: Api<K>, params: ListParams, scope: &Scope) -> Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug,
{
    let resource = K::plural(&());
    let what = format!("list {resource}");
    let right = format!("the verb list on {resource}");
    let mut objects = await_answer(scope, &what, &right, api.list(&params.match_any()))
        .await?
        .items;
    if scope.output.is_for_people() {
        let mut document = serde_json::to_value(&objects)?;
        plain::all(&mut document);
        objects = serde_json::from_value(document)?;
    }
    Ok(objects)
}

/// The agent in a pod; none for a pod that no node has taken.
fn agent_of(pod: &Pod) -> Option<Agent> {
    let spec = pod.spec.as_ref()?;
    let mut containers = spec.containers.iter();
    let named = containers.find(|container| container.name == CONTAINER);
    let container = named.or(spec.containers.first())?;
    let mut conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    Some(Agent {
        node: spec.node_name.clone()?,
        pod: pod.name_any(),
        container: container.name.clone(),
        ready: conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        obstacle: obstacle(pod, &container.name),
        flags: flags(container),
        image: container.image.clone(),
        mode_policy: mode_policy(container),
    })
}

/// Why no command can run: the container's state, in the kubelet's words.
fn obstacle(pod: &Pod, container: &str) -> Option<String> {
    let status = pod.status.as_ref()?;
    let mut statuses = status.container_statuses.iter().flatten();
    let agent_status = statuses.find(|status| status.name == container);
    let Some(state) = agent_status.and_then(|status| status.state.as_ref()) else {
        return match status.phase.as_deref().unwrap_or("Unknown") {
            "Running" => None,
            phase => Some(format!("its pod is {phase}")),
        };
    };
    let why = match (&state.waiting, &state.terminated) {
        (Some(waiting), _) => waiting.reason.as_deref(),
        (_, Some(terminated)) => terminated.reason.as_deref(),
        (None, None) => return None,
    };
    Some(format!(
        "its container does not run: {}",
        why.unwrap_or("not running")
    ))
}

fn flags(container: &Container) -> Vec<String> {
    let mut flags: Vec<String> = container.image.iter().cloned().collect();
    flags.extend(container.args.iter().flatten().cloned());
    for variable in container.env.iter().flatten() {
        if let Some(value) = &variable.value {
            flags.push(format!("{}={value}", variable.name));
        }
    }
    flags
}

fn mode_policy(container: &Container) -> Option<String> {
    let mut arguments = container.args.iter().flatten();
    let flag = arguments.find_map(|argument| argument.strip_prefix("--mode-policy"))?;
    let value = flag
        .strip_prefix('=')
        .or(arguments.next().map(String::as_str))?;
    // As the kubelet does.
    let variables = container.env.iter().flatten();
    Some(
        variables.fold(value.to_owned(), |text, one| match &one.value {
            Some(value) => text.replace(&format!("$({})", one.name), value),
            None => text,
        }),
    )
}
