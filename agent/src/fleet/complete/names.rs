//! Names that only the cluster and the kubeconfig have, after `--node` and `--context`.

use crate::commands::lint;
use crate::shared::client;
use crate::shared::plain::plain;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::timeout;

/// A shell waits no longer for the API server.
const PATIENCE: Duration = Duration::from_secs(2);

/// The candidates for the last word; none if it is the value of no such flag. Without an answer there are no candidates.
pub async fn names(words: &[String]) -> Option<Vec<(String, String)>> {
    let (word, before) = words.split_last()?;
    let given = std::env::var_os("KUBECONFIG").map(PathBuf::from);
    let kubeconfig = lint::kubeconfig(value(before, "--kubeconfig").map(PathBuf::from).or(given));
    let (flag, word) = match word.split_once('=') {
        Some((flag, value)) if flag.starts_with("--") => (flag, value),
        _ => (before.last()?.as_str(), word.as_str()),
    };
    // Nodes with commas: those before the last stand.
    let stands = word.rfind(',').map_or("", |at| &word[..=at]);
    let names = match flag {
        "--context" => client::contexts(&kubeconfig?).unwrap_or_default(),
        "--node" => {
            let context = value(before, "--context");
            let nodes = nodes(kubeconfig, context.as_deref());
            timeout(PATIENCE, nodes).await.ok().flatten().unwrap_or_default()
        }
        _ => return None,
    };
    let all = names.iter().map(|name| format!("{stands}{}", plain(name)));
    let fitting = all.filter(|name| name.starts_with(word));
    Some(fitting.map(|name| (name, String::new())).collect())
}

async fn nodes(kubeconfig: Option<PathBuf>, context: Option<&str>) -> Option<Vec<String>> {
    let client = client::client(kubeconfig.as_deref(), context).await.ok()?;
    let nodes = Api::<Node>::all(client)
        .list_metadata(&ListParams::default())
        .await
        .ok()?;
    Some(nodes.items.iter().map(kube::ResourceExt::name_any).collect())
}

/// The value of a flag among words.
fn value(words: &[String], flag: &str) -> Option<String> {
    let at = words
        .iter()
        .rposition(|word| word == flag || word.starts_with(&format!("{flag}=")))?;
    match words[at].split_once('=') {
        Some((_, value)) => Some(value.to_owned()),
        None => words.get(at + 1).cloned(),
    }
}
