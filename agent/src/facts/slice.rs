//! `EndpointSlices`: which (IP, port) a Service lists, and which pod is meant.

use super::{Ignored, Meta, Name, Object, Protocol, addr, null_is_default, parse};
use epguard_common::{Addr, Uid};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::SystemTime;

/// One `EndpointSlice`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Namespace and name of the slice.
    pub name: Name,
    /// Namespace and name of the Service (label `kubernetes.io/service-name`); none for an orphan.
    pub service: Option<Name>,
    /// Endpoints with a usable address.
    pub endpoints: Vec<Endpoint>,
    /// Target ports; without a number a port names nothing that a packet could carry.
    pub ports: Vec<SlicePort>,
    /// When the pod or Service changed that the slice was last written for, by the API server's clock: measured, and
    /// never a reason to deny (annotation `endpoints.kubernetes.io/last-change-trigger-time`).
    pub triggered: Option<SystemTime>,
}

/// One address of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// The endpoint's IP.
    pub ip: Addr,
    /// The pod that is meant; none without a Pod targetRef or with an empty UID.
    pub target: Option<Uid>,
    /// `conditions.ready`; where a slice says nothing, it is (discovery/v1 `EndpointConditions`).
    pub ready: bool,
}

/// A target port of a slice, host order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlicePort {
    /// Which of the Service's ports it stands for.
    pub name: PortName,
    /// Host order, never 0.
    pub port: u16,
    /// TCP where the slice says nothing.
    pub protocol: Protocol,
}

/// The name of a port, unique within its Service; only its hash is kept, for there are as many as endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortName(u64);

impl PortName {
    /// The name as the API writes it; empty where the Service has one port only.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Written by the `EndpointSlice` controller, RFC 3339.
const TRIGGERED: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// More than the API server accepts in one slice (`maxPorts`, discovery/validation).
const MAX_PORTS: usize = 20_000;

impl Object for Slice {
    const KIND: &'static str = "EndpointSlice";
    const PATH: &'static str = "/apis/discovery.k8s.io/v1/endpointslices";

    fn read(json: &[u8], _: &mut Ignored) -> anyhow::Result<Self> {
        let raw: RawSlice = parse(json)?;
        let meta = raw.metadata;
        anyhow::ensure!(!meta.name.is_empty(), "EndpointSlice without a name");
        let ip = raw.address_type != "FQDN";
        let endpoints = raw
            .endpoints
            .iter()
            .filter(|_| ip)
            .flat_map(RawEndpoint::endpoints)
            .collect();
        let ports = raw.ports.unwrap_or_default();
        Ok(Self {
            service: meta
                .labels
                .get("kubernetes.io/service-name")
                .filter(|service| !service.is_empty())
                .map(|service| (meta.namespace.clone(), service.clone())),
            triggered: meta.annotations.get(TRIGGERED).and_then(|text| time(text)),
            endpoints,
            ports: ports.iter().take(MAX_PORTS).filter_map(RawPort::port).collect(),
            name: (meta.namespace, meta.name),
        })
    }
}

fn time(text: &str) -> Option<SystemTime> {
    text.parse::<Timestamp>().ok().map(SystemTime::from)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSlice {
    metadata: Meta,
    #[serde(default)]
    address_type: String,
    #[serde(default, deserialize_with = "null_is_default")]
    endpoints: Vec<RawEndpoint>,
    #[serde(default)]
    ports: Option<Vec<RawPort>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawEndpoint {
    #[serde(deserialize_with = "null_is_default")]
    addresses: Vec<String>,
    target_ref: Option<TargetRef>,
    conditions: Option<Conditions>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TargetRef {
    kind: String,
    uid: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawPort {
    name: Option<String>,
    port: Option<i64>,
    protocol: Option<String>,
}

impl RawEndpoint {
    fn endpoints(&self) -> impl Iterator<Item = Endpoint> {
        let target = self
            .target_ref
            .as_ref()
            .filter(|r| r.kind == "Pod")
            .and_then(|r| Uid::parse(&r.uid));
        let ready = self.conditions.as_ref().is_none_or(|c| c.ready != Some(false));
        self.addresses
            .iter()
            .filter_map(|ip| addr(ip))
            .map(move |ip| Endpoint { ip, target, ready })
    }
}

impl RawPort {
    fn port(&self) -> Option<SlicePort> {
        let port = u16::try_from(self.port?).ok().filter(|&port| port != 0)?;
        Some(SlicePort {
            name: PortName::new(self.name.as_deref().unwrap_or_default()),
            port,
            protocol: Protocol::parse(self.protocol.as_deref())?,
        })
    }
}
