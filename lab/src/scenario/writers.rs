//! Two writers of CONFIG at once: the command line, and the agent that follows its `ConfigMap`.

use std::thread;

use anyhow::{Context, Result};
use serde_json::json;

use super::format::Writers;
use super::stage::Stage;

/// Runs both writers, each in its order, for all rounds. `map` is the `ConfigMap` of the agent's `--fleet-config`.
pub(super) fn write(stage: &Stage, map: Option<&str>, writers: &Writers) -> Result<()> {
    let (namespace, name) = map
        .and_then(|map| map.split_once('/'))
        .context("`writers` needs `agent: {fleet-config: NAMESPACE/NAME}`")?;
    let store = &stage.cluster.store;
    store.ensure_namespace(namespace)?;
    for _ in 0..writers.rounds {
        thread::scope(|scope| -> Result<()> {
            let commands =
                scope.spawn(|| writers.commands.iter().try_for_each(|words| stage.agent.run(words)));
            for data in &writers.config_map {
                let metadata = json!({"name": name, "namespace": namespace});
                store.apply(json!({
                    "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data,
                }))?;
            }
            commands.join().map_err(|_| anyhow::anyhow!("a command's thread panicked"))?
        })?;
    }
    Ok(())
}
