//! The `ConfigMap` of modes, and how a node's modes differ from it.

use super::agents::{Fleet, PATIENCE};
use crate::shared::status::Status;
use anyhow::{Context as _, Result, anyhow};
use epguard_common::{Mode, Reason};
use epguard_core::facts::{ModePolicy, Object as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tokio::time::timeout;

/// The `ConfigMap` that most agents watch, as it was read.
pub struct Policy {
    /// `namespace/name`.
    pub name: String,
    /// None if it does not exist. With invalid keys and values, agents only lower modes.
    pub map: Option<(ConfigMap, ModePolicy)>,
}

impl Policy {
    /// Reads it; none if the agents watch none. Errors: the cause and the remedy, in one line.
    pub async fn read(fleet: &Fleet) -> Result<Option<Self>> {
        let Some(name) = fleet.config_map() else {
            return Ok(None);
        };
        let (maps, own_name) = Self::api(fleet, &name)?;
        let read = timeout(PATIENCE, maps.get_opt(own_name)).await;
        let read =
            read.map_err(|_| anyhow!("cannot read ConfigMap {name}: the API server does not answer"))?;
        let map = read.map_err(|error| match error {
            kube::Error::Api(status) if status.code == 403 => {
                let namespace = name.split('/').next().unwrap_or_default();
                anyhow!("may not read ConfigMap {name}: grant the account the verb get on configmaps in namespace {namespace}")
            }
            error => anyhow!("cannot read ConfigMap {name}: {}", anyhow::Error::from(error).root_cause()),
        })?;
        let read = |map: ConfigMap| {
            let modes = ModePolicy::parse(&serde_json::to_vec(&map)?);
            let modes = modes.map_err(|error| anyhow!("ConfigMap {name}: {error:?}"))?;
            anyhow::Ok((map, modes))
        };
        let map = map.map(read).transpose()?;
        Ok(Some(Self { name, map }))
    }

    /// Where the `ConfigMap` is, and its name without the namespace. Errors: it has none.
    pub fn api<'a>(fleet: &Fleet, name: &'a str) -> Result<(Api<ConfigMap>, &'a str)> {
        let parts = name.split_once('/');
        let (namespace, name) =
            parts.with_context(|| format!("{name} is no NAMESPACE/NAME (--fleet-config)"))?;
        Ok((Api::namespaced(fleet.client.clone(), namespace), name))
    }

    /// Its keys and values.
    pub fn data(&self) -> impl Iterator<Item = (&str, &str)> {
        let data = self.map.iter().flat_map(|(map, _)| map.data.iter().flatten());
        data.map(|(key, value)| (key.as_str(), value.trim()))
    }
}

/// How the node's modes differ from the `ConfigMap`'s; none if they do not, or if the node reports a problem with it.
pub fn deviation(modes: &ModePolicy, status: &Status, canary: bool) -> Option<String> {
    if status.config_map.is_some() || !modes.errors.is_empty() {
        return None;
    }
    // None leaves the mode to the flags.
    let by_canary_mode = modes.wanted.canary_mode.filter(|_| canary);
    if let (Some(wanted), Some(is)) = (by_canary_mode.or(modes.wanted.mode), status.mode)
        && wanted != is
    {
        return Some(format!("mode {is} instead of {wanted}"));
    }
    let mut reasons = modes.wanted.reasons.iter();
    reasons.find_map(|(reason, wanted)| of_reason(*reason, *wanted, status))
}

/// A wrong denial may have lowered the reason's mode.
fn of_reason(reason: Reason, wanted: Mode, status: &Status) -> Option<String> {
    let wanted = wanted.lower(status.mode?);
    let is = *status.reasons.get(&reason)?;
    (is != wanted && !status.demoted.contains(&reason)).then(|| format!("{reason} {is} instead of {wanted}"))
}
