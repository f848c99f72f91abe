//! What the API shows beside the agents: nodes, and the `ConfigMap` of modes.

use super::agents::{Fleet, PATIENCE, all};
use epguard_core::facts::{ModePolicy, Object as _};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::timeout;

/// Nodes of virtual kubelets run no `DaemonSet`.
const TYPE: &str = "type";
const VIRTUAL: &str = "virtual-kubelet";
const OS: &str = "kubernetes.io/os";
/// The label of nodes that `canary-mode` of the `ConfigMap` is for.
const CANARY: &str = "epguard.io/canary";

/// What the API shows beside the agents.
#[derive(Debug, Default)]
pub struct Cluster {
    /// None if nodes may not be listed.
    pub nodes: Option<Nodes>,
    /// Name and content of the `ConfigMap` that most agents follow; none without one.
    pub modes: Option<(String, ModePolicy)>,
    /// Nodes that should have an agent, and have no pod of one.
    pub without_agent: Vec<String>,
    /// What could not be read, in a line each.
    pub unread: Vec<String>,
}

/// What the API shows about nodes.
#[derive(Debug, Default)]
pub struct Nodes {
    /// Kernels by node, of all nodes that should have an agent.
    pub kernels: BTreeMap<String, String>,
    /// Nodes with the label of canaries.
    pub canaries: BTreeSet<String>,
}

impl Cluster {
    /// The node's kernel, if it is known.
    pub fn kernel(&self, node: &str) -> Option<String> {
        self.nodes.as_ref()?.kernels.get(node).cloned()
    }

    /// Reads what the account may read.
    pub async fn read(fleet: &Fleet) -> Self {
        let mut cluster = Self::default();
        match all(Api::all(fleet.client.clone()), ListParams::default(), fleet.scope.output).await {
            Ok(nodes) => {
                let nodes = Nodes::of(&nodes);
                if fleet.scope.is_whole() {
                    let without = nodes.kernels.keys().filter(|node| !fleet.has(node));
                    cluster.without_agent = without.cloned().collect();
                }
                cluster.nodes = Some(nodes);
            }
            Err(why) => cluster.unread.push(format!("nodes without an agent, canaries, and kernels: {why}")),
        }
        if let Some(name) = fleet.config_map() {
            match read_modes(&fleet.client, &name).await {
                Ok(modes) => cluster.modes = modes.map(|(_, modes)| (name, modes)),
                Err(why) => cluster.unread.push(format!("modes with the ConfigMap: {why}")),
            }
        }
        cluster
    }
}

impl Nodes {
    fn of(nodes: &[Node]) -> Self {
        let runs_agents = |labels: &BTreeMap<String, String>| {
            labels.get(TYPE).is_none_or(|kind| kind != VIRTUAL)
                && labels.get(OS).is_some_and(|os| os == "linux")
        };
        let mut shown = Self::default();
        for node in nodes {
            let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
            let kernel = info.map(|info| info.kernel_version.clone()).unwrap_or_default();
            if runs_agents(node.labels()) {
                shown.kernels.insert(node.name_any(), kernel);
            }
            if node.labels().get(CANARY).is_some_and(|is| is == "true") {
                shown.canaries.insert(node.name_any());
            }
        }
        shown
    }
}

/// The `ConfigMap` of modes, if it exists. Errors: the cause and the remedy, in one line.
pub async fn read_modes(client: &Client, name: &str) -> Result<Option<(ConfigMap, ModePolicy)>, String> {
    let (namespace, name) =
        name.split_once('/').ok_or_else(|| format!("{name} is no NAMESPACE/NAME (--fleet-config)"))?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let read = timeout(PATIENCE, maps.get_opt(name)).await;
    let read = read
        .map_err(|_| format!("cannot read ConfigMap {namespace}/{name}: the API server does not answer"))?;
    let map = read.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 403 => format!(
            "may not read ConfigMap {namespace}/{name}: grant the account the verb get on configmaps in namespace {namespace}"
        ),
        error => {
            let error = anyhow::Error::from(error);
            format!("cannot read ConfigMap {namespace}/{name}: {}", error.root_cause())
        }
    })?;
    let Some(map) = map else {
        return Ok(None);
    };
    let json = serde_json::to_vec(&map).map_err(|error| error.to_string())?;
    let modes =
        ModePolicy::parse(&json).map_err(|error| format!("ConfigMap {namespace}/{name}: {error:?}"))?;
    Ok(Some((map, modes)))
}
