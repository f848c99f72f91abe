//! Objects of the watches and facts of the node, cut down to the few fields that decide.
//!
//! Conversion happens here, at the edge: nothing behind this module sees JSON. A bad value
//! (an IP "banana", an empty UID, an FQDN slice) is left out and counted; it never fails the
//! object around it, because an object left out could be the one that shows an IP alive.

mod annotations;
mod mode_policy;
mod networks;
mod node;
mod object_name;
mod pod;
mod routes;
mod selection;
mod service;
mod slice;
mod static_ip;
mod text;
#[macro_use]
mod watched;

pub use annotations::{Namespace, cut};
pub use mode_policy::{ModePolicy, WantedModes};
pub use node::{Cidr, Node, NodeSeen, WATCHED_NODES};
pub use object_name::ObjectName;
pub use pod::{Doubt, HostPort, Ips, Pod, Sandbox};
pub use routes::Routes;
pub use selection::{Labels, Part, Selection, Selector};
pub use service::{OnDenial, Protocol, Service, ServicePort};
#[cfg(test)]
pub use slice::listing;
pub use slice::{ANY_PORT, ListedSlice, Namespaces, PortName, Slice, SliceEndpoint, SlicePort};
pub use static_ip::{STATIC_IPS, StaticIp};
pub use text::{Text, shared};
pub use watched::Visitor;

use epguard_common::{Addr, Uid};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::Deref;
use std::time::Duration;
use text::{RawText, addr};

watched! {
    watched {
        /// All pods.
        Pods = Pod(Pod), "pods", true;
        /// All `EndpointSlices`.
        EndpointSlices = Slice(Slice), "endpointslices", true;
        /// All Services.
        Services = Service(Service), "services", true;
        /// All Nodes.
        Nodes = Node(Node), "nodes", true;
        /// All Namespaces.
        Namespaces = Namespace(Namespace), "namespaces", false;
        /// The one `ConfigMap` with the modes of all nodes. No denial rests on it, so its age does
        /// not matter.
        ModePolicy = ModePolicy(ModePolicy), "configmaps(mode-policy)", false;
    }
    other {
        /// All addresses of this node's own interfaces, from netlink.
        LocalAddresses(Vec<Addr>),
        /// Holders of IPs, as this node and its datapath see them.
        Presence(Presence),
        /// Whether a socket load balancer translates calls on this node.
        SocketLb(bool),
        /// Whether a Node is there, as the API server has answered.
        NodeSeen(NodeSeen),
    }
}

/// A report about holders of IPs, from the node's own routes or from the datapath.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// All routes of this node to parts of its ranges.
    Routes(Routes),
    /// The routes are unknown, or were not read: a pod may hold any IP.
    Unknown,
    /// Such routes were announced; they may be gone again.
    Announced(Vec<Cidr>),
    /// The datapath saw a packet from the IP, then (`CLOCK_BOOTTIME`).
    Spoke(Addr, Duration),
}

/// Change of an object of a watch.
#[derive(Debug, Clone)]
pub enum Change<T> {
    /// A consistent list of all objects. An absent object vanished in a gap, which proves nothing.
    Reset(Vec<T>),
    /// A consistent list of some pods or slices.
    Part(Part<T>),
    /// ADDED or MODIFIED in a continuous watch.
    Applied(T),
    /// DELETED in a continuous watch, with the last state.
    Deleted(T),
    /// DELETED, with a last state that cannot be read: only its metadata is. That it is gone proves
    /// nothing else.
    Gone(T),
}

impl<T> Change<T> {
    /// Its objects by name, then, without an object, those that a list shows to be gone: of the
    /// known ones that it would have shown, those that it lacks. `known` gets what a list of some
    /// selects, and the names of which it proves nothing.
    pub fn by_name<N: Clone + Eq + Hash>(
        self,
        name: impl Fn(&T) -> &N,
        known: impl FnOnce(Option<(&Selection, &BTreeSet<ObjectName>)>) -> Vec<N>,
    ) -> Vec<(N, Option<T>)> {
        let (objects, known) = match self {
            Self::Applied(object) => return vec![(name(&object).clone(), Some(object))],
            Self::Deleted(object) | Self::Gone(object) => {
                return vec![(name(&object).clone(), None)];
            }
            Self::Reset(objects) => (objects, known(None)),
            Self::Part(Part {
                selection,
                objects,
                later,
                ..
            }) => (objects, known(Some((&selection, &later)))),
        };
        let listed: HashSet<&N> = objects.iter().map(&name).collect();
        let gone = known
            .into_iter()
            .filter(|name| !listed.contains(name))
            .map(|name| (name, None));
        let gone: Vec<_> = gone.collect();
        objects
            .into_iter()
            .map(|object| (name(&object).clone(), Some(object)))
            .chain(gone)
            .collect()
    }
}

/// An object of the API that can be watched.
pub trait Object: Clone + Send + 'static {
    /// As in the API: `Pod`.
    const KIND: &'static str;
    /// The collection across namespaces: `/api/v1/pods`.
    const PATH: &'static str;
    /// True if its objects are in namespaces.
    const NAMESPACED: bool = true;

    /// Those parts of its JSON that are read.
    type Raw<'a>: Deserialize<'a> + AsRef<Meta<'a>>;

    /// Makes the object of its JSON. Adds the annotations that it could not read to `ignored`.
    ///
    /// Fails only if it has no name or no UID.
    fn from_raw(raw: Self::Raw<'_>, ignored: &mut Ignored) -> Result<Self, Unreadable> {
        if raw.as_ref().name.is_empty() {
            return Err(format!("{} without a name", Self::KIND).into());
        }
        Self::from_named(raw, ignored)
    }

    /// The same for an object that has a name.
    fn from_named(raw: Self::Raw<'_>, ignored: &mut Ignored) -> Result<Self, Unreadable>;

    /// Reads one object as it stands in a list or a watch event.
    ///
    /// Fails as [`Object::from_raw`] does, and if it isn't of the API's shape at all.
    fn read(json: &[u8], ignored: &mut Ignored) -> Result<Self, Unreadable> {
        Self::from_raw(serde_json::from_slice(json)?, ignored)
    }

    /// Reads one object and drops the list of unreadable annotations.
    ///
    /// Fails as [`Object::read`] does.
    fn parse(json: &[u8]) -> Result<Self, Unreadable> {
        Self::read(json, &mut Ignored::new())
    }
}

/// Parts of an object that were left out, and why, one line each.
pub type Ignored = Vec<String>;

/// Why an object of the API could not be read, for a log line.
pub type Unreadable = Box<dyn Error + Send + Sync>;

/// The parts of an object that most kinds have; a `ConfigMap` has data.
#[derive(Deserialize)]
pub struct RawObject<'a, S: Default, T: Default, D: Default = IgnoredAny> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(default)]
    spec: S,
    #[serde(default)]
    status: T,
    #[serde(default)]
    data: D,
}

impl<'a, S: Default, T: Default, D: Default> AsRef<Meta<'a>> for RawObject<'a, S, T, D> {
    fn as_ref(&self) -> &Meta<'a> {
        &self.metadata
    }
}

/// The metadata of an object.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta<'a> {
    #[serde(borrow)]
    name: RawText<'a>,
    namespace: RawText<'a>,
    uid: RawText<'a>,
    resource_version: RawText<'a>,
    labels: OrDefault<BTreeMap<RawText<'a>, RawText<'a>>>,
    annotations: OrDefault<BTreeMap<RawText<'a>, RawText<'a>>>,
    deletion_timestamp: Option<RawText<'a>>,
    owner_references: OrDefault<Vec<OwnerReference<'a>>>,
    managed_fields: OrDefault<Vec<ManagedFields<'a>>>,
}

impl Meta<'_> {
    /// Errors: the object has no UID.
    fn uid(&self) -> Result<Uid, Unreadable> {
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
struct OwnerReference<'a> {
    #[serde(borrow)]
    kind: RawText<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ManagedFields<'a> {
    #[serde(borrow)]
    manager: RawText<'a>,
    subresource: RawText<'a>,
    #[serde(rename = "fieldsV1")]
    fields: OwnedFields,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OwnedFields {
    #[serde(rename = "f:status")]
    status: OwnedStatus,
}

/// The fields of a status that a manager owns.
#[derive(Deserialize, Default)]
#[serde(default)]
struct OwnedStatus {
    #[serde(rename = "f:phase")]
    phase: Option<IgnoredAny>,
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
    fn shows_sandbox(&self) -> bool {
        self.pod_ip.is_some() || self.pod_ips.is_some() || self.conditions.sandbox.is_some()
    }
}

/// An address in an object of its own.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Ip<'a> {
    #[serde(borrow, alias = "address")]
    ip: RawText<'a>,
}

impl Ip<'_> {
    fn addr(&self) -> Option<Addr> {
        addr(&self.ip)
    }
}

/// A value that is its default where the API has `null`: so Go writes an empty list without
/// `omitempty`.
#[derive(Default)]
pub struct OrDefault<T>(T);

impl<'de, T: Default + Deserialize<'de>> Deserialize<'de> for OrDefault<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Self(Option::deserialize(d)?.unwrap_or_default()))
    }
}

impl<T> Deref for OrDefault<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}
