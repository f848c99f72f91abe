//! The `ConfigMap` of the mode policy, as the API server has it.

use super::agents::{Fleet, await_answer};
use super::answers::group_by_value;
use super::policy_writer::{OURS, gitops_controller, last_writer};
use super::scope::Scope;
use anyhow::{Context as _, Result};
use epguard_client::shared::output::after;
use epguard_client::shared::plain::plain;
use epguard_core::facts::PolicyKey;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The values of some keys; none for a key that goes.
pub type NewKeys = BTreeMap<PolicyKey, Option<String>>;

/// The `ConfigMap`, as it was read.
pub struct PolicyMap {
    /// `namespace/name`.
    pub name: String,
    api: Api<ConfigMap>,
    /// None if it does not exist.
    map: Option<ConfigMap>,
    scope: Scope,
}

impl PolicyMap {
    /// Reads the one that the agents watch. Errors: they watch none, or it cannot be read; in one
    /// line with the remedy.
    pub async fn fetch(fleet: &Fleet) -> Result<Self> {
        // While a rollout changes it, most agents decide.
        let watched = fleet
            .agents
            .iter()
            .filter_map(|agent| Some((agent.mode_policy.clone()?, &*agent.node)));
        let most = group_by_value(watched)
            .into_iter()
            .rev()
            .max_by_key(|(_, nodes)| nodes.len());
        let name = most.map(|(name, _)| name).context(
            "the agents watch no ConfigMap: add --mode-policy=NAMESPACE/NAME to their arguments, as deploy/epguard.yaml does, or pass --node",
        )?;
        let (namespace, _) = name
            .split_once('/')
            .with_context(|| format!("{name} is no NAMESPACE/NAME (--mode-policy)"))?;
        let api = Api::namespaced(fleet.client.clone(), namespace);
        let mut policy = Self {
            name,
            api,
            map: None,
            scope: fleet.scope.clone(),
        };
        policy.refresh().await?;
        Ok(policy)
    }

    /// Reads it again. Errors: it cannot be read; in one line with the remedy.
    pub async fn refresh(&mut self) -> Result<()> {
        let (namespace, object) = self.name.split_once('/').unwrap_or_default();
        let right = format!("the verb get on configmaps in namespace {namespace}");
        let what = format!("read ConfigMap {}", self.name);
        self.map = await_answer(&self.scope, &what, &right, self.api.get_opt(object)).await?;
        Ok(())
    }

    /// The value of a key.
    pub fn value(&self, key: PolicyKey) -> Option<&str> {
        let key = key.to_string();
        let mut data = self.data();
        data.find(|(set, _)| *set == key).map(|(_, value)| value)
    }

    /// Its keys and values.
    pub fn data(&self) -> impl Iterator<Item = (&str, &str)> {
        let data = self.map.iter().flat_map(|map| map.data.iter().flatten());
        data.map(|(key, value)| (key.as_str(), value.trim()))
    }

    /// Its resourceVersion; none if it does not exist.
    pub fn version(&self) -> Option<&str> {
        self.map.as_ref()?.metadata.resource_version.as_deref()
    }

    /// The field manager that wrote it last, if that is recorded.
    pub fn last_writer(&self) -> Option<String> {
        let writer = self.map.as_ref().and_then(last_writer)?;
        Some(plain(writer).into_owned())
    }

    /// Its keys for people, and who wrote them last.
    pub fn keys_text(&self) -> String {
        let keys: Vec<String> = self
            .data()
            .map(|(key, value)| plain(&format!("{key}: {value}")).into_owned())
            .collect();
        if keys.is_empty() {
            return format!(
                "ConfigMap {}: no key is set, so the agents' flags hold",
                self.name
            );
        }
        format!(
            "ConfigMap {}: {}{}",
            self.name,
            keys.join(", "),
            after("; last written by ", self.last_writer())
        )
    }

    /// Its name, its keys, and who wrote them last, for scripts.
    pub fn document(&self) -> Value {
        let keys: BTreeMap<&str, &str> = self.data().collect();
        json!({"configMap": self.name, "keys": keys, "lastWriter": self.last_writer()})
    }

    /// That a GitOps controller may take a change back; none if there is none.
    pub fn gitops_warning(&self) -> Option<String> {
        let controller = self.map.as_ref().and_then(gitops_controller)?;
        Some(format!(
            "warning: {} writes ConfigMap {}, too, and may take a change back: \
             see \"Argo CD and Flux\" in docs/operate.md",
            plain(controller),
            self.name
        ))
    }

    /// Sets or removes keys. Errors: the account may not, or the `ConfigMap` was changed since it
    /// was read.
    pub async fn write(&mut self, keys: &NewKeys) -> Result<()> {
        let object = self.name.rsplit('/').next().unwrap_or_default();
        let write = async {
            if let Some(map) = &self.map {
                let data: BTreeMap<String, &Option<String>> = keys
                    .iter()
                    .map(|(key, value)| (key.to_string(), value))
                    .collect();
                let version = &map.metadata.resource_version;
                let patch = json!({"metadata": {"resourceVersion": version}, "data": data});
                let params = PatchParams {
                    field_manager: Some(OURS.to_owned()),
                    ..PatchParams::default()
                };
                self.api.patch(object, &params, &Patch::Merge(patch)).await
            } else {
                let mut map = ConfigMap {
                    data: Some(BTreeMap::new()),
                    ..ConfigMap::default()
                };
                map.metadata.name = Some(object.to_owned());
                for (key, value) in keys {
                    if let (Some(data), Some(value)) = (&mut map.data, value) {
                        data.insert(key.to_string(), value.clone());
                    }
                }
                let params = PostParams {
                    field_manager: Some(OURS.to_owned()),
                    ..PostParams::default()
                };
                self.api.create(&params, &map).await
            }
        };
        let right = "the verbs create and patch on configmaps there";
        let what = format!("write ConfigMap {}", self.name);
        let written = await_answer(&self.scope, &what, right, write).await?;
        self.map = Some(written);
        Ok(())
    }
}
