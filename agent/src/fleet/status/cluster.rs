//! What the API shows beside the agents: nodes, and the `ConfigMap` of modes.

use crate::fleet::agents::{Fleet, PATIENCE, all};
use epguard_core::facts::{ModePolicy, Object as _};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use std::collections::BTreeMap;
use tokio::time::timeout;

/// Nodes of virtual kubelets run no `DaemonSet`.
const TYPE: &str = "type";
const VIRTUAL: &str = "virtual-kubelet";
const OS: &str = "kubernetes.io/os";

/// What the API shows beside the agents.
#[derive(Debug, Default)]
pub struct Cluster {
    /// Kernels by node, of all nodes that should have an agent; none if nodes may not be listed.
    pub kernels: Option<BTreeMap<String, String>>,
    /// The content of the `ConfigMap`; none without one.
    pub modes: Option<ModePolicy>,
    /// Nodes that should have an agent, and have no pod of one.
    pub without_agent: Vec<String>,
    /// What could not be read, in a line each.
    pub unread: Vec<String>,
}

impl Cluster {
    /// Reads what the account may read.
    pub async fn read(fleet: &Fleet) -> Self {
        let mut cluster = Self::default();
        let nodes: Api<Node> = Api::all(fleet.client.clone());
        match all(&nodes, "nodes", ListParams::default(), fleet.scope.output).await {
            Ok(nodes) => {
                let kernels = kernels(&nodes);
                if fleet.is_whole() {
                    let nodes = kernels.keys().filter(|node| !fleet.has(node));
                    cluster.without_agent = nodes.cloned().collect();
                }
                cluster.kernels = Some(kernels);
            }
            Err(why) => cluster
                .unread
                .push(format!("nodes without an agent, and kernels: {}", short(&why))),
        }
        if let Some(name) = fleet.agents.iter().find_map(|agent| agent.config_map.as_ref()) {
            match read_modes(&fleet.client, name).await {
                Ok(modes) => cluster.modes = modes.map(|(_, modes)| modes),
                Err(why) => cluster.unread.push(format!("modes with the ConfigMap: {why}")),
            }
        }
        cluster
    }
}

/// The `ConfigMap` of modes, if it exists. Errors: the cause and the remedy, in one line.
pub async fn read_modes(client: &Client, name: &str) -> Result<Option<(ConfigMap, ModePolicy)>, String> {
    let (namespace, name) = name
        .split_once('/')
        .ok_or_else(|| format!("{name} is no NAMESPACE/NAME (--fleet-config)"))?;
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

/// An error without the server's own words, which repeat it.
fn short(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    match (text.find(" ("), text.find("); ")) {
        (Some(from), Some(to)) if from < to => format!("{}{}", &text[..from], &text[to + 1..]),
        _ => text,
    }
}

fn kernels(nodes: &[Node]) -> BTreeMap<String, String> {
    let runs_agents = |node: &&Node| {
        let labels = node.labels();
        labels.get(TYPE).is_none_or(|kind| kind != VIRTUAL) && labels.get(OS).is_some_and(|os| os == "linux")
    };
    let nodes = nodes.iter().filter(runs_agents);
    let kernels = nodes.map(|node| {
        let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
        let kernel = info.map(|info| info.kernel_version.clone());
        (node.name_any(), kernel.unwrap_or_default())
    });
    kernels.collect()
}
