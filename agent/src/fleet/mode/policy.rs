//! The `ConfigMap` of modes that the agents watch.

use crate::fleet::agents::{Fleet, PATIENCE};
use crate::fleet::status::read_modes;
use crate::shared::plain::plain;
use anyhow::{Context as _, Result, anyhow};
use epguard_common::{Mode, Reason};
use epguard_core::facts::ModePolicy;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use std::collections::BTreeMap;
use tokio::time::timeout;

/// A key of the `ConfigMap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// `mode`.
    Mode,
    /// `canary-mode`.
    CanaryMode,
    /// The reason's name.
    Reason(Reason),
}

impl Key {
    /// The key that the flags mean.
    pub const fn of(canary: bool, reason: Option<Reason>) -> Self {
        match (canary, reason) {
            (true, _) => Self::CanaryMode,
            (false, Some(reason)) => Self::Reason(reason),
            (false, None) => Self::Mode,
        }
    }

    /// As the `ConfigMap` has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::CanaryMode => "canary-mode",
            Self::Reason(reason) => reason.as_str(),
        }
    }
}

/// The `ConfigMap`, as it was read.
#[derive(Debug)]
pub struct Policy {
    /// `namespace/name`.
    pub name: String,
    /// None if it does not exist.
    map: Option<ConfigMap>,
    /// Its content. With invalid keys and values, agents only lower modes.
    pub modes: Option<ModePolicy>,
}

impl Policy {
    /// Reads the one that the flags of most agents name. Errors: they name none, or it cannot be read.
    pub async fn read(fleet: &Fleet) -> Result<Self> {
        let name = fleet.config_map().context(
            "the agents watch no ConfigMap: add --fleet-config=NAMESPACE/NAME to their arguments, as deploy/base does, or pass --node",
        )?;
        let read = read_modes(&fleet.client, &name)
            .await
            .map_err(|why| anyhow!(why))?;
        let (map, modes) = read.unzip();
        Ok(Self { name, map, modes })
    }

    /// The value of a key; none if it is not set.
    pub fn value(&self, key: &str) -> Option<&str> {
        let data = self.map.as_ref()?.data.as_ref()?;
        data.get(key).map(String::as_str)
    }

    /// Whether canaries have a mode of their own.
    pub fn has_canary_mode(&self) -> bool {
        let modes = self.modes.as_ref();
        modes.is_some_and(|modes| modes.wanted.canary_mode.is_some())
    }

    /// Its keys for people.
    pub fn text(&self) -> String {
        let data = self.map.as_ref().and_then(|map| map.data.as_ref());
        let keys = data.into_iter().flatten();
        let keys = keys.map(|(key, value)| plain(&format!("{key}: {}", value.trim())).into_owned());
        let keys: Vec<String> = keys.collect();
        let (name, keys) = (&self.name, keys.join(", "));
        match (&self.map, keys.is_empty()) {
            (None, _) => format!("ConfigMap {name} does not exist: the agents' flags hold"),
            (Some(_), true) => format!("ConfigMap {name} has no key: the agents' flags hold"),
            (Some(_), false) => format!("ConfigMap {name}: {keys}"),
        }
    }

    /// Sets or removes a key. Errors: the account may not, or the `ConfigMap` was changed since it was read.
    pub async fn write(&self, fleet: &Fleet, key: Key, value: Option<Mode>) -> Result<()> {
        let (namespace, name) = self.name.split_once('/').context("no NAMESPACE/NAME")?;
        let maps: Api<ConfigMap> = Api::namespaced(fleet.client.clone(), namespace);
        let value = value.map(Mode::as_str);
        let write = async {
            if let Some(map) = &self.map {
                let patch = json!({
                    "metadata": {"resourceVersion": map.metadata.resource_version},
                    "data": {key.as_str(): value},
                });
                maps.patch(name, &PatchParams::default(), &Patch::Merge(patch))
                    .await
            } else {
                let data = value.map(|value| BTreeMap::from([(key.as_str().to_owned(), value.to_owned())]));
                let map = ConfigMap {
                    metadata: ObjectMeta {
                        name: Some(name.to_owned()),
                        namespace: Some(namespace.to_owned()),
                        ..ObjectMeta::default()
                    },
                    data,
                    ..ConfigMap::default()
                };
                maps.create(&PostParams::default(), &map).await
            }
        };
        let written = timeout(PATIENCE, write).await.with_context(|| {
            format!(
                "ConfigMap {} may have been written: the API server does not answer",
                self.name
            )
        })?;
        written.map(drop).map_err(|error| self.refused(error))
    }

    fn refused(&self, error: kube::Error) -> anyhow::Error {
        let name = &self.name;
        match error {
            kube::Error::Api(status) if status.code == 403 => anyhow!(
                "nothing is changed: may not write ConfigMap {name}: grant the account the verbs create and patch on configmaps there"
            ),
            kube::Error::Api(status) if status.code == 409 => {
                anyhow!("nothing is changed: ConfigMap {name} was changed meanwhile; run this again")
            }
            error => {
                let cause = anyhow::Error::from(error).root_cause().to_string();
                anyhow!("ConfigMap {name} was not written: {cause}")
            }
        }
    }
}
