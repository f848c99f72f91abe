//! Requests of the check: objects are made from JSON, and each error names the object and the right
//! that it needs.

use super::objects::PREFIX;
use crate::agents::{Fleet, await_answer};
use anyhow::{Context as _, Result};
use epguard_client::shared::calls::MANAGED_BY;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Time between two looks at something that is waited for.
pub(super) const LOOKS: Duration = Duration::from_millis(500);

/// Makes an object of a namespace. Errors: the API server refuses it, or does not answer.
pub(super) async fn create<K>(fleet: &Fleet, namespace: &str, object: &Value) -> Result<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let api = Api::namespaced(fleet.client.clone(), namespace);
    create_by(fleet, api, object).await
}

/// Makes a Namespace.
pub(super) async fn create_namespace(fleet: &Fleet, object: &Value) -> Result<()> {
    let api: Api<Namespace> = all(fleet);
    create_by(fleet, api, object).await.map(drop)
}

async fn create_by<K>(fleet: &Fleet, api: Api<K>, object: &Value) -> Result<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let kind = K::kind(&());
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let what = format!("make {kind} {name}");
    let right = format!("the verb create on {}", K::plural(&()));
    let object: K = serde_json::from_value(object.clone())
        .with_context(|| format!("{kind} {name} is no object of the API"))?;
    await_answer(
        &fleet.scope,
        &what,
        &right,
        api.create(&PostParams::default(), &object),
    )
    .await
}

/// All objects of a kind without a namespace.
pub(super) fn all<K>(fleet: &Fleet) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
{
    Api::all(fleet.client.clone())
}

/// The pods of a namespace.
pub(super) async fn pods(fleet: &Fleet, namespace: &str) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(fleet.client.clone(), namespace);
    let what = format!("list pods in namespace {namespace}");
    let all = ListParams::default();
    let list = api.list(&all);
    Ok(
        await_answer(&fleet.scope, &what, "the verb list on pods", list)
            .await?
            .items,
    )
}

/// The namespaces of all checks.
pub(super) async fn namespaces(fleet: &Fleet) -> Result<Vec<Namespace>> {
    let (key, value) = MANAGED_BY;
    let labelled = ListParams::default().labels(&format!("{key}={value}"));
    let api: Api<Namespace> = all(fleet);
    let list = await_answer(
        &fleet.scope,
        "list namespaces",
        "the verb list on namespaces",
        api.list(&labelled),
    );
    let mut namespaces = list.await?.items;
    // Nobody else's, whatever label it has.
    namespaces.retain(|namespace| namespace.name_any().starts_with(PREFIX));
    Ok(namespaces)
}

/// Deletes namespaces, and waits until they are gone: until two looks in a row show none, since a
/// request to make one that was given up may still be carried out. Returns those that are still
/// there after the wait. Errors: one may not be deleted; the others are all the same.
pub(super) async fn delete_namespaces(
    fleet: &Fleet,
    names: &[String],
    wait: Duration,
) -> Result<Vec<String>> {
    let until = Instant::now() + wait;
    let mut has_looked = false;
    let mut was_empty = false;
    loop {
        let all = match namespaces(fleet).await {
            Ok(all) => all,
            Err(error) if !has_looked || Instant::now() >= until => return Err(error),
            // Only the look is lost: what was deleted ends by itself.
            Err(_) => {
                sleep(LOOKS).await;
                continue;
            }
        };
        has_looked = true;
        // A namespace of this name that no check has made stays.
        let left = named(&all, names);
        if left.is_empty() && was_empty {
            return Ok(left);
        }
        was_empty = left.is_empty();
        let mut refused = None;
        for namespace in &all {
            let name = namespace.name_any();
            let is_ending = namespace.metadata.deletion_timestamp.is_some();
            if is_ending || !left.contains(&name) {
                continue;
            }
            if let Err(error) = delete_namespace(fleet, &name).await {
                refused = refused.or(Some(error));
            }
        }
        if let Some(error) = refused {
            return Err(error);
        }
        if Instant::now() >= until {
            return Ok(left);
        }
        sleep(LOOKS).await;
    }
}

async fn delete_namespace(fleet: &Fleet, name: &str) -> Result<()> {
    let api: Api<Namespace> = all(fleet);
    let deleted = async {
        match api.delete(name, &DeleteParams::background()).await {
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
            deleted => deleted.map(drop),
        }
    };
    let what = format!("delete namespace {name}");
    await_answer(
        &fleet.scope,
        &what,
        "the verb delete on namespaces",
        deleted,
    )
    .await
}

/// The names of those that have one of these names.
fn named(namespaces: &[Namespace], names: &[String]) -> Vec<String> {
    let all = namespaces.iter().map(ResourceExt::name_any);
    all.filter(|name| names.contains(name)).collect()
}
