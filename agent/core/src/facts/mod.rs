//! What the watches and the node say, cut down to the few fields that decide.
//!
//! Conversion happens here, at the edge: nothing behind this module sees JSON. A bad value
//! (an IP "banana", an empty UID, an FQDN slice) is left out and counted; it never fails the
//! object around it, because an object left out could be the one that shows an IP alive.

mod action;
mod brief;
mod fleet;
mod listed;
mod mode;
mod namespace;
mod networks;
mod node;
mod pod;
mod raw_slice;
mod service;
mod slice;
mod static_ip;
mod unreadable;
mod watched;

pub use brief::cut;
pub use fleet::{Fleet, Wish};
pub use listed::{ListedEndpoint, ListedSlice, PodRef};
pub use namespace::Namespace;
pub use node::{Cidr, Node};
pub use pod::{Doubt, Pod, Sandbox, Standing};
pub use service::{Protocol, Service, ServicePort, Steering};
pub use slice::{Endpoint, PodName, PortName, Slice, SlicePort};
pub use unreadable::Unreadable;
pub use watched::Watched;

use epguard_common::{Addr, Uid};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use std::{collections::BTreeMap, net::IpAddr, time::Duration};

/// Namespace and name of an object.
pub type Name = (String, String);

/// As people write it: `namespace/name`.
#[must_use]
pub fn named((namespace, name): &Name) -> String {
    format!("{namespace}/{name}")
}

/// One thing that the API or the node told us.
#[derive(Debug, Clone)]
pub enum Fact {
    /// From the Pod watch.
    Pod(Change<Pod>),
    /// From the `EndpointSlice` watch.
    Slice(Change<Slice>),
    /// From the Service watch.
    Service(Change<Service>),
    /// From the Node watch.
    Node(Change<Node>),
    /// From the Namespace watch.
    Namespace(Change<Namespace>),
    /// From the watch of the one `ConfigMap`.
    Fleet(Change<Fleet>),
    /// All addresses of this node's own interfaces, from netlink.
    LocalAddresses(Vec<Addr>),
    /// Who is there, as this node and its datapath see it.
    Presence(Presence),
}

/// What the node's own routes and neighbours, or the datapath, say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// Every IP that a host route or a valid neighbour of this node leads to.
    Held(Vec<Addr>),
    /// The node cannot say what they lead to, or was not asked: anybody may be anywhere.
    Unknown,
    /// A host route or a neighbour of each was announced; it may be gone again.
    Came(Vec<Addr>),
    /// Whatever they led to up to then (`CLOCK_BOOTTIME`) has been told.
    Looked(Duration),
    /// A packet from the IP was seen, by the datapath, then (`CLOCK_BOOTTIME`).
    Spoke(Addr, Duration),
    /// Packets from the IP, at least [`epguard_common::Terminated::APART_NS`] apart, entered at the pod interface that the
    /// node routes the IP to; when the first one came (`CLOCK_BOOTTIME`).
    Sighted(Addr, Duration),
}

/// What happened to an object of a watch.
#[derive(Debug, Clone)]
pub enum Change<T> {
    /// A consistent list: everything there is. What is absent vanished in a gap, which proves nothing.
    Reset(Vec<T>),
    /// ADDED or MODIFIED in a continuous watch.
    Applied(T),
    /// DELETED in a continuous watch, with the last state.
    Deleted(T),
}

/// An object of the API that can be watched.
pub trait Object: Clone + Send + 'static {
    /// As in the API: `Pod`.
    const KIND: &'static str;
    /// The collection across namespaces: `/api/v1/pods`.
    const PATH: &'static str;

    /// Reads one object as it stands in a list or a watch event, and says which annotations it could not read.
    ///
    /// Fails only if it has no name, no UID, or isn't of the API's shape at all.
    fn read(json: &[u8], ignored: &mut Ignored) -> Result<Self, Unreadable>;

    /// The same where nobody asks what could not be read.
    ///
    /// Fails as [`Object::read`] does.
    fn parse(json: &[u8]) -> Result<Self, Unreadable> {
        Self::read(json, &mut Ignored::new())
    }
}

/// What of an object was left out, and why, in one line each.
pub type Ignored = Vec<String>;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    name: String,
    namespace: String,
    uid: String,
    #[serde(deserialize_with = "null_is_default")]
    labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    annotations: BTreeMap<String, String>,
    deletion_timestamp: Option<String>,
    #[serde(deserialize_with = "null_is_default")]
    owner_references: Vec<OwnerReference>,
    #[serde(deserialize_with = "null_is_default")]
    managed_fields: Vec<ManagedFields>,
}

impl Meta {
    fn identity(&self) -> Result<(Uid, Name), Unreadable> {
        if self.name.is_empty() {
            return Err(Unreadable::because("object without a name"));
        }
        let uid = Uid::parse(&self.uid)
            .ok_or_else(|| Unreadable::because(format!("{}/{} has no UID", self.namespace, self.name)))?;
        Ok((uid, (self.namespace.clone(), self.name.clone())))
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OwnerReference {
    kind: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ManagedFields {
    manager: String,
    subresource: String,
    #[serde(rename = "fieldsV1")]
    fields: OwnedFields,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OwnedFields {
    #[serde(rename = "f:status")]
    status: OwnedStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OwnedStatus {
    #[serde(rename = "f:phase")]
    phase: Option<serde::de::IgnoredAny>,
}

/// Go writes an empty list without `omitempty` as `null`.
fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(d: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, Unreadable> {
    Ok(serde_json::from_slice(json)?)
}

/// Reads an address that can be one host's; anything else (a name, `0.0.0.0`, multicast) is no address.
fn addr(text: &str) -> Option<Addr> {
    text.parse::<IpAddr>()
        .ok()
        .map(Addr::from)
        .filter(|addr| addr.is_unicast())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ip_banana_is_no_address() {
        assert_eq!(addr("banana"), None);
        assert_eq!(addr("0.0.0.0"), None);
        assert_eq!(addr("10.1.2.3"), Some(Addr::v4([10, 1, 2, 3])));
    }
}
