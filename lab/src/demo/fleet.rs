//! `kubectl epguard` beside the story's API server, which runs its commands beside the story's agent.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use crate::api::{Kind, ObjectRef, Run};
use crate::process;
use crate::scenario::stage::Stage;

const NAMESPACE: &str = "epguard";
const NODE: &str = "node-a";

/// What the command prints. A failure is text, too: the claims of the story judge epguard.
///
/// Errors: the agent's pod cannot be shown, or there is no epguard.
pub fn output(stage: &Stage, words: &str) -> Result<String> {
    let cluster = &stage.cluster;
    cluster.store.ensure_namespace(NAMESPACE)?;
    // The other node of the lab runs no agent, and needs none.
    let unlabelled = json!({"metadata": {"labels": {"kubernetes.io/os": null}}});
    cluster.store.patch(&ObjectRef::new(Kind::Node, "", "node-b"), &unlabelled)?;
    cluster.store.apply(json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "epguard-x7k2p", "namespace": NAMESPACE, "labels": {"app.kubernetes.io/name": "epguard"}},
        "spec": {"nodeName": NODE, "hostNetwork": true, "containers": [{"name": "agent"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }))?;
    let epguard = process::epguard()?;
    let (program, run_dir) = (epguard.clone(), stage.workdir.path().to_owned());
    cluster.api_server().api.execs.answer(move |exec| {
        let mut command = Command::new(&program);
        command.args(&exec.command[1..]).arg("--run-dir").arg(&run_dir);
        Run::Process(command)
    });
    let kubeconfig = stage.workdir.path().join("operator.kubeconfig");
    fs::write(&kubeconfig, cluster.kubeconfig()).context("cannot write a kubeconfig")?;
    let mut command = cluster.topology.node(NODE)?.netns.command(epguard);
    command.arg0("kubectl-epguard").env("KUBECONFIG", kubeconfig);
    let output = command.args(words.split(' ')).output().context("cannot run kubectl-epguard")?;
    let text = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
}
