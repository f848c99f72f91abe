//! Lists the objects to check from the API.

use super::cluster::Listed;
use crate::watch::{Failure, list_once};
use anyhow::{Result, anyhow};
use epguard_core::facts::{Ignored, Object};
use kube::Client;
use std::path::PathBuf;

/// The listed objects, and a list of what is missing.
#[derive(Debug, Default)]
pub struct Fetched {
    /// The objects.
    pub listed: Listed,
    /// What could not be listed, and what that leaves out, in one line each.
    pub unchecked: Vec<String>,
}

/// Lists once. With a namespace, rights in that namespace are enough; `unchecked` names what they leave out.
///
/// Errors name the list, the cause and the remedy.
pub async fn fetch(client: &Client, namespace: Option<&str>) -> Result<Fetched> {
    let mut fetched = Fetched::default();
    let unchecked = &mut fetched.unchecked;
    let listed = &mut fetched.listed;
    listed.slices = required(list_once(client, namespace).await, namespace, unchecked)?;
    listed.services = required(list_once(client, namespace).await, namespace, unchecked)?;
    listed.pods = match (list_once(client, None).await, namespace) {
        (Err(failure), Some(_)) if failure.is_forbidden() => {
            unchecked.push(
                "pods of other namespaces: may not list them, so other pods with the same address are not found".into(),
            );
            required(list_once(client, namespace).await, namespace, unchecked)?
        }
        (pods, _) => required(pods, namespace, unchecked)?,
    };
    listed.nodes = match list_once(client, None).await {
        Err(failure) if failure.is_forbidden() => {
            unchecked.push("ranges: may not list nodes, so addresses outside of them, or in them without a pod, are not found".into());
            Vec::new()
        }
        nodes => required(nodes, namespace, unchecked)?,
    };
    Ok(fetched)
}

fn required<O: Object>(
    list: Result<(Vec<O>, Ignored), Failure>,
    namespace: Option<&str>,
    unchecked: &mut Vec<String>,
) -> Result<Vec<O>> {
    match list {
        Ok((objects, skipped)) => {
            unchecked.extend(skipped);
            Ok(objects)
        }
        Err(failure) if failure.is_forbidden() && namespace.is_none() => {
            Err(anyhow!("{}, or pass -n NAMESPACE to check only one", failure.error))
        }
        Err(failure) => Err(anyhow!(failure.error)),
    }
}

/// The file that kubectl would use: `$KUBECONFIG` is read by clap, then `~/.kube/config`. `None`: the service account.
#[must_use]
pub fn kubeconfig(given: Option<PathBuf>) -> Option<PathBuf> {
    given.or_else(|| {
        let home = std::env::home_dir()?.join(".kube/config");
        home.exists().then_some(home)
    })
}
