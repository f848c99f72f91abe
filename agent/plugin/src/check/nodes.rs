//! The nodes that are checked: those that the flags choose, or one of each pool; and those that
//! cannot be, as no agent runs there.

use super::plan::{Candidate, one_of_each_pool};
use crate::agents::{Fleet, Lack, MissingNode, NO_AGENT, NO_AGENT_REMEDY, list_objects};
use crate::answers::{absent_lines, group_by_value, name_nodes};
use crate::scope::Scope;
use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Nodes that should have an agent and have none, so that nothing is sent there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NotChecked {
    /// Their names, and the cause.
    #[serde(rename = "notChecked")]
    pub nodes: Vec<MissingNode>,
    /// Why it is not known which these are; none if it is.
    #[serde(rename = "notCompared")]
    pub unknown: Option<String>,
    /// Whether the user chose them.
    #[serde(skip)]
    pub are_chosen: bool,
}

impl NotChecked {
    /// Of a fleet, before fewer of its nodes are chosen.
    fn of(fleet: &Fleet) -> Self {
        if !fleet.scope.is_whole() {
            return Self {
                nodes: fleet.missing.clone(),
                unknown: None,
                are_chosen: true,
            };
        }
        let (nodes, unknown) = match &fleet.without_agent {
            Ok(nodes) => (nodes.clone(), None),
            Err(why) => (Vec::new(), Some(why.clone())),
        };
        Self {
            nodes: nodes.into_iter().map(MissingNode::without_agent).collect(),
            unknown,
            are_chosen: false,
        }
    }

    /// Whether a node is missing that the user chose.
    pub fn lacks_chosen(&self) -> bool {
        self.are_chosen && !self.nodes.is_empty()
    }

    /// The lines below the table.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut causes = Vec::new();
        for missing in &self.nodes {
            let why = match missing.lack {
                Lack::Agent => format!("{NO_AGENT}: {NO_AGENT_REMEDY}"),
                Lack::Answer | Lack::AgentOrNode => missing.why.clone(),
            };
            causes.push((why, &*missing.node));
        }
        for (why, nodes) in group_by_value(causes) {
            lines.push(format!("not checked: {}: {why}", name_nodes(&nodes)));
        }
        if let Some(why) = &self.unknown {
            lines.push(format!("not compared: nodes without an agent: {why}"));
        }
        lines
    }
}

/// Names of the nodes that are checked, sorted, and the others. Errors: Nodes may not be listed; no
/// chosen node has an agent.
pub(super) async fn choose(fleet: &Fleet, all: bool) -> Result<(Vec<String>, NotChecked)> {
    let mut with_agent: Vec<String> = fleet.node_names().into_iter().map(str::to_owned).collect();
    with_agent.sort();
    let not_checked = NotChecked::of(fleet);
    ensure!(
        !with_agent.is_empty() || !not_checked.lacks_chosen(),
        "nothing is made: {}",
        absent_lines(&not_checked.nodes, &[]).join("; ")
    );
    if all || !fleet.scope.is_whole() {
        return Ok((with_agent, not_checked));
    }
    Ok((one_of_each(fleet, &with_agent).await?, not_checked))
}

/// One node of each pool of those with an agent. Errors: Nodes may not be listed.
async fn one_of_each(fleet: &Fleet, with_agent: &[String]) -> Result<Vec<String>> {
    let nodes: Api<Node> = Api::all(fleet.client.clone());
    let nodes = list_objects(nodes, ListParams::default(), &fleet.scope).await?;
    // Without the right to list these, nodes differ by their own fields alone.
    let cni = cni_images(&fleet.client, &fleet.scope)
        .await
        .unwrap_or_default();
    let mut candidates = Vec::new();
    for node in &nodes {
        if with_agent.contains(&node.name_any()) {
            candidates.push(candidate(node, cni.get(&node.name_any())));
        }
    }
    Ok(one_of_each_pool(&candidates))
}

fn candidate(node: &Node, cni: Option<&BTreeSet<String>>) -> Candidate {
    let status = node.status.as_ref();
    let info = status.and_then(|status| status.node_info.as_ref());
    let mut pool: Vec<String> = cni.into_iter().flatten().cloned().collect();
    if let Some(info) = info {
        pool.extend([
            info.os_image.clone(),
            info.kernel_version.clone(),
            info.architecture.clone(),
        ]);
    }
    let mut conditions = status
        .into_iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let is_ready =
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let spec = node.spec.as_ref();
    let is_cordoned = spec.is_some_and(|spec| spec.unschedulable == Some(true));
    Candidate {
        name: node.name_any(),
        pool,
        takes_pods: is_ready && !is_cordoned,
    }
}

/// The images of each node's CNI: of the pods of each `DaemonSet` that mounts the node's folder of
/// network configurations or plugins. Errors: they may not be listed.
async fn cni_images(client: &Client, scope: &Scope) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let sets: Api<DaemonSet> = Api::all(client.clone());
    let sets = list_objects(sets, ListParams::default(), scope).await?;
    let mut images: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for set in sets {
        let Some(spec) = &set.spec else { continue };
        if !spec.template.spec.as_ref().is_some_and(is_of_cni) {
            continue;
        }
        let labels = spec.selector.match_labels.iter().flatten();
        let labels: Vec<String> = labels
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let namespace = set.namespace().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        let selected = ListParams::default().labels(&labels.join(","));
        for pod in list_objects(pods, selected, scope).await? {
            let Some(spec) = pod.spec else { continue };
            let Some(node) = spec.node_name else { continue };
            let of_node = images.entry(node).or_default();
            of_node.extend(spec.containers.into_iter().filter_map(|one| one.image));
        }
    }
    Ok(images)
}

/// Whether a pod with this spec installs a network plugin.
fn is_of_cni(spec: &PodSpec) -> bool {
    let volumes = spec.volumes.iter().flatten();
    let mut paths = volumes.filter_map(|volume| Some(&volume.host_path.as_ref()?.path));
    paths.any(|path| {
        let mut folders = path.split('/');
        folders.any(|folder| folder == "cni")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_chosen_node_that_may_not_exist_is_not_said_to_have_no_agent() {
        let why = "may not list nodes";
        let not_checked = NotChecked {
            nodes: vec![
                MissingNode::without_agent("node-b".into()),
                MissingNode::perhaps_unknown("nope".into(), why),
            ],
            unknown: None,
            are_chosen: true,
        };
        assert!(not_checked.lacks_chosen());
        let lines = [
            "not checked: node-b: no agent runs there: see the Events of the DaemonSet, its nodeSelector and tolerations",
            "not checked: nope: no agent's pod is there, and whether the cluster has such a node is not known: may not list \
             nodes",
        ];
        assert_eq!(not_checked.lines(), lines);
    }

    #[test]
    fn a_daemonset_that_mounts_the_folder_of_plugins_is_of_the_cni() {
        let spec = |path: &str| -> PodSpec {
            serde_json::from_value(
                json!({"containers": [], "volumes": [{"name": "v", "hostPath": {"path": path}}]}),
            )
            .unwrap()
        };
        for (path, is) in [
            ("/opt/cni/bin", true),
            ("/etc/cni/net.d", true),
            ("/var/lib/rancher/k3s/agent/etc/cni/net.d", true),
            ("/sys/fs/bpf", false),
            ("/var/lib/acni", false),
        ] {
            assert_eq!(is_of_cni(&spec(path)), is, "{path}");
        }
    }

    #[test]
    fn a_nodes_pool_is_its_system_and_the_versions_of_its_cni() {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {
                "osImage": "Debian 12", "kernelVersion": "6.1", "architecture": "amd64", "bootID": "",
                "containerRuntimeVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "",
                "operatingSystem": "", "systemUUID": ""}}}))
        .unwrap();
        let images = ["cilium:1".to_owned()].into();
        let found = candidate(&node, Some(&images));
        assert_eq!(found.pool, ["cilium:1", "Debian 12", "6.1", "amd64"]);
        assert!(!found.takes_pods, "it is cordoned");
    }
}
