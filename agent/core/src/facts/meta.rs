//! The metadata of an object of the API: its name, its labels and annotations, and who wrote what.

use super::json::{OrDefault, RawText};
use super::object_name::ObjectName;
use super::text::shared;
use epguard_common::Uid;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::error::Error;

/// Parts of an object that were left out, and why, one line each.
pub type Ignored = Vec<String>;

/// Why an object of the API could not be read, for a log line.
pub type Unreadable = Box<dyn Error + Send + Sync>;

/// The metadata of an object.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta<'a> {
    #[serde(borrow)]
    pub(super) name: RawText<'a>,
    pub(super) namespace: RawText<'a>,
    pub(super) uid: RawText<'a>,
    pub(super) resource_version: RawText<'a>,
    pub(super) labels: OrDefault<BTreeMap<RawText<'a>, RawText<'a>>>,
    pub(super) annotations: OrDefault<BTreeMap<RawText<'a>, RawText<'a>>>,
    pub(super) deletion_timestamp: Option<RawText<'a>>,
    pub(super) owner_references: OrDefault<Vec<OwnerReference<'a>>>,
    pub(super) managed_fields: OrDefault<Vec<ManagedFields<'a>>>,
}

impl Meta<'_> {
    /// Errors: the object has no UID.
    pub(super) fn uid(&self) -> Result<Uid, Unreadable> {
        let uid = Uid::parse(&self.uid);
        uid.ok_or_else(|| format!("{}/{} has no UID", &*self.namespace, &*self.name).into())
    }

    /// The resourceVersion, as it is written.
    pub fn version(&self) -> &str {
        &self.resource_version
    }

    /// Namespace and name, of which only the namespace is shared with other objects.
    pub fn name(&self) -> ObjectName {
        ObjectName::new(shared(&self.namespace), &*self.name)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct OwnerReference<'a> {
    #[serde(borrow)]
    pub(super) kind: RawText<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ManagedFields<'a> {
    #[serde(borrow)]
    pub(super) manager: RawText<'a>,
    pub(super) subresource: RawText<'a>,
    #[serde(rename = "fieldsV1")]
    pub(super) fields: OwnedFields,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct OwnedFields {
    #[serde(rename = "f:status")]
    pub(super) status: OwnedStatus,
}

/// The fields of a status that a manager owns.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct OwnedStatus {
    #[serde(rename = "f:phase")]
    pub(super) phase: Option<IgnoredAny>,
    #[serde(rename = "f:podIP")]
    pod_ip: Option<IgnoredAny>,
    #[serde(rename = "f:podIPs")]
    pod_ips: Option<IgnoredAny>,
    #[serde(rename = "f:conditions")]
    conditions: OwnedConditions,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OwnedConditions {
    #[serde(rename = r#"k:{"type":"PodReadyToStartContainers"}"#)]
    sandbox: Option<IgnoredAny>,
}

impl OwnedStatus {
    /// True if the manager reported the pod's sandbox: only the kubelet knows it.
    pub(super) fn shows_sandbox(&self) -> bool {
        self.pod_ip.is_some() || self.pod_ips.is_some() || self.conditions.sandbox.is_some()
    }
}
