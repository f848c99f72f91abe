//! The nodes of a cluster, as the API shows them.

use super::agents::{Fleet, all};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes of virtual kubelets run no `DaemonSet`.
const TYPE: &str = "type";
const VIRTUAL: &str = "virtual-kubelet";
const OS: &str = "kubernetes.io/os";
/// The label of nodes that `canary-mode` of the `ConfigMap` is for.
const CANARY: &str = "epguard.io/canary";

/// What the API shows about nodes.
#[derive(Debug, Default)]
pub struct Nodes {
    /// Kernels by node, of all nodes that should have an agent.
    pub kernels: BTreeMap<String, String>,
    /// Nodes with the label of canaries.
    pub canaries: BTreeSet<String>,
}

impl Nodes {
    /// Lists them. Errors: the cause and the remedy, in one line.
    pub async fn list(fleet: &Fleet) -> Result<Self, String> {
        let api = Api::all(fleet.client.clone());
        let listed = all(api, ListParams::default(), fleet.scope.output).await;
        let nodes: Vec<Node> = listed.map_err(|why| short(&why))?;
        let canaries = nodes
            .iter()
            .filter(|node| node.labels().get(CANARY).is_some_and(|is| is == "true"));
        Ok(Self {
            kernels: kernels(&nodes),
            canaries: canaries.map(kube::ResourceExt::name_any).collect(),
        })
    }
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
