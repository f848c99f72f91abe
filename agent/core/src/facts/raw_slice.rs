//! `EndpointSlices` as the API writes them, with the fields that epguard reads.

use super::{Meta, Name, RawText, addr, null_is_default, shared};
use epguard_common::Addr;
use serde::Deserialize;
use smallvec::SmallVec;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawSlice<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(default)]
    address_type: RawText<'a>,
    #[serde(default, deserialize_with = "null_is_default")]
    endpoints: Vec<RawEndpoint<'a>>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) ports: Vec<RawPort<'a>>,
}

/// One address.
pub(super) struct RawAddress<'a> {
    pub(super) ip: Addr,
    /// Its targetRef, if that is of kind Pod.
    pub(super) pod: Option<&'a TargetRef<'a>>,
    /// `conditions.ready`; true where the slice has none (discovery/v1 `EndpointConditions`).
    pub(super) ready: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct TargetRef<'a> {
    #[serde(borrow)]
    kind: RawText<'a>,
    namespace: RawText<'a>,
    pub(super) name: RawText<'a>,
    pub(super) uid: RawText<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct RawPort<'a> {
    #[serde(borrow)]
    pub(super) name: Option<RawText<'a>>,
    pub(super) port: Option<i64>,
    pub(super) protocol: Option<RawText<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawEndpoint<'a> {
    #[serde(deserialize_with = "null_is_default", borrow)]
    addresses: SmallVec<[RawText<'a>; 1]>,
    target_ref: Option<TargetRef<'a>>,
    conditions: Option<Conditions>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
}

impl<'a> AsRef<Meta<'a>> for RawSlice<'a> {
    fn as_ref(&self) -> &Meta<'a> {
        &self.metadata
    }
}

impl<'a> RawSlice<'a> {
    /// Label `kubernetes.io/service-name`; none for an orphan.
    pub(super) fn service(&self) -> Option<Name> {
        let service = self.label("kubernetes.io/service-name")?;
        Some((shared(&self.metadata.namespace), shared(service)))
    }

    /// Label `endpointslice.kubernetes.io/managed-by`.
    pub(super) fn managed_by(&self) -> Option<&str> {
        self.label("endpointslice.kubernetes.io/managed-by")
    }

    /// The value of a label; none if it is absent or empty.
    fn label(&self, key: &str) -> Option<&str> {
        let value = self.metadata.labels.get(key)?;
        Some(&**value).filter(|value| !value.is_empty())
    }

    /// Every usable address; none of an FQDN slice.
    pub(super) fn addresses(&self) -> impl Iterator<Item = RawAddress<'_>> {
        self.endpoints().flat_map(RawEndpoint::addresses)
    }

    /// True if it has addresses that are not usable.
    pub(super) fn is_partial(&self) -> bool {
        let mut texts = self.endpoints().flat_map(|endpoint| &endpoint.addresses);
        texts.any(|ip| addr(ip).is_none())
    }

    fn endpoints(&self) -> impl Iterator<Item = &RawEndpoint<'a>> {
        self.endpoints.iter().filter(|_| &*self.address_type != "FQDN")
    }
}

impl TargetRef<'_> {
    /// The namespace of the target; the slice's where the targetRef has none.
    pub(super) fn namespace_or<'a>(&'a self, slice: &'a str) -> &'a str {
        if self.namespace.is_empty() { slice } else { &self.namespace }
    }
}

impl RawEndpoint<'_> {
    fn addresses(&self) -> impl Iterator<Item = RawAddress<'_>> {
        let pod = self.target_ref.as_ref().filter(|target| &*target.kind == "Pod");
        let ready = self.conditions.as_ref().is_none_or(|c| c.ready != Some(false));
        let addresses = self.addresses.iter().filter_map(|ip| addr(ip));
        addresses.map(move |ip| RawAddress { ip, pod, ready })
    }
}
