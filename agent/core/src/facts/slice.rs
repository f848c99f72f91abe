//! `EndpointSlices`: which (IP, port) a Service lists, and which pod is meant.

use super::json::{OrDefault, RawText, addr};
use super::meta::{Ignored, Meta, Unreadable};
use super::object::Object;
use super::object_name::ObjectName;
use super::protocol::Protocol;
use super::text::{Text, hash, shared};
use epguard_common::{Addr, Uid};
use jiff::Timestamp;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::time::SystemTime;

/// One `EndpointSlice`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Namespace and name of the slice.
    pub name: ObjectName,
    /// Namespace and name of the Service (label `kubernetes.io/service-name`). Without one nothing
    /// else is kept.
    pub service: Option<ObjectName>,
    /// Endpoints with a usable address.
    pub endpoints: Vec<SliceEndpoint>,
    /// Namespaces of the pods that its endpoints mean, ascending.
    pub namespaces: Vec<Text>,
    /// It has addresses that cannot be read, or more than are kept: it may list any IP, for
    /// whichever pod. None of its endpoints is kept.
    pub partial: bool,
    /// Something else than the `EndpointSlice` controller writes it (label
    /// `endpointslice.kubernetes.io/managed-by`): which pods it lists next does not follow from the
    /// Service's selector.
    pub foreign: bool,
    /// Target ports; any, if the slice has none.
    pub ports: Vec<SlicePort>,
    /// When the pod or Service changed that the slice was last written for, by the API server's
    /// clock. For measurements, never a reason to deny (annotation
    /// `endpoints.kubernetes.io/last-change-trigger-time`).
    pub triggered: Option<SystemTime>,
}

/// One `EndpointSlice` for reports, with the texts that [`Slice`] has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSlice {
    /// The fields that decide.
    pub facts: Slice,
    /// Label `endpointslice.kubernetes.io/managed-by`; none without it.
    pub managed_by: Option<String>,
    /// Namespace (the slice's where the targetRef has none) and name of the pod that each endpoint
    /// means; none without a targetRef of kind Pod.
    pub targets: Vec<Option<ObjectName>>,
}

/// A target port without a number stands for every port (discovery/v1 `EndpointPort`).
pub const ANY_PORT: u16 = 0;

/// One address of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SliceEndpoint {
    /// The endpoint's IP.
    pub ip: Addr,
    /// The pod that is meant; none without a Pod targetRef or with an empty UID.
    pub target: Option<Uid>,
    /// `conditions.ready`; true where the slice has none (discovery/v1 `EndpointConditions`).
    pub ready: bool,
}

/// A target port of a slice, host order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlicePort {
    /// Which of the Service's ports it stands for.
    pub name: PortName,
    /// Host order; [`ANY_PORT`] where the slice has no number.
    pub port: u16,
    /// TCP where the slice has none.
    pub protocol: Protocol,
}

/// The name of a port, unique within its Service; only a hash of 32 bits is kept, for there are as
/// many as endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortName(u32);

impl PortName {
    /// The name as the API writes it; empty where the Service has one port only.
    pub fn new(name: &str) -> Self {
        Self(u32::try_from(hash(name) >> 32).unwrap_or_default())
    }
}

/// Written by the `EndpointSlice` controller, RFC 3339.
const TRIGGERED: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Octets of a namespace's name (an RFC 1123 label). The API server does not check those of a
/// targetRef.
const NAMESPACE: usize = 63;

/// Addresses of one slice that are kept. The controllers of Kubernetes write at most 1,000; the API
/// server accepts 100,000.
const ADDRESSES: usize = 1_024;

/// Ports of one slice that are kept, as of a Service. The API server accepts 20,000 (`maxPorts`,
/// discovery/validation).
const PORTS: usize = 1_024;

impl Slice {
    /// The `EndpointSlice` controller's name in a slice's `managed-by` label.
    pub const CONTROLLER: &'static str = "endpointslice-controller.k8s.io";

    /// Pairs of address and port of one slice that are kept. One of 30 KB can have a million of
    /// them.
    pub const MOST_PAIRS: usize = 4_096;

    /// Namespaces of one slice that are kept, and of all slices of a Service: more than its pods
    /// have.
    pub const MOST_NAMESPACES: usize = 64;

    /// How many pairs of address and port it lists; an address without ports is one, too.
    pub const fn pairs(&self) -> usize {
        pairs(self.endpoints.len(), self.ports.len())
    }

    /// What is kept of it where it lists more than there is room for.
    pub fn emptied(self) -> Self {
        Self {
            endpoints: Vec::new(),
            ports: Vec::new(),
            partial: true,
            ..self
        }
    }
}

const fn pairs(addresses: usize, ports: usize) -> usize {
    addresses.saturating_mul(if ports == 0 { 1 } else { ports })
}

impl Object for Slice {
    const KIND: &'static str = "EndpointSlice";
    const PATH: &'static str = "/apis/discovery.k8s.io/v1/endpointslices";

    type Raw<'a> = RawSlice<'a>;

    fn from_named(raw: RawSlice<'_>, _: &mut Ignored) -> Result<Self, Unreadable> {
        let header = raw.header();
        Ok(if header.service.is_none() {
            Self {
                namespaces: Vec::new(),
                ..header
            }
        } else if raw.is_too_large() || raw.has_unreadable() {
            header.emptied()
        } else {
            raw.whole()
        })
    }
}

impl Object for ListedSlice {
    const KIND: &'static str = Slice::KIND;
    const PATH: &'static str = Slice::PATH;

    type Raw<'a> = RawSlice<'a>;

    fn from_named(raw: RawSlice<'_>, _: &mut Ignored) -> Result<Self, Unreadable> {
        let usable = raw.addresses().filter(|(_, ip)| ip.is_some());
        let pods = usable.map(|(endpoint, _)| endpoint.pod(&raw.metadata.namespace));
        Ok(Self {
            targets: pods
                .map(|pod| {
                    pod.map(|(namespace, pod)| ObjectName::new(shared(namespace), &*pod.name))
                })
                .collect(),
            managed_by: raw.managed_by().map(str::to_owned),
            facts: raw.whole(),
        })
    }
}

/// What is read of its JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawSlice<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(default)]
    address_type: RawText<'a>,
    #[serde(default)]
    endpoints: OrDefault<Vec<RawEndpoint<'a>>>,
    #[serde(default)]
    ports: OrDefault<Vec<RawSlicePort<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawEndpoint<'a> {
    #[serde(borrow)]
    addresses: OrDefault<Vec<RawText<'a>>>,
    target_ref: Option<TargetRef<'a>>,
    conditions: OrDefault<Conditions>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TargetRef<'a> {
    #[serde(borrow)]
    kind: RawText<'a>,
    namespace: RawText<'a>,
    name: RawText<'a>,
    uid: RawText<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawSlicePort<'a> {
    #[serde(borrow)]
    name: Option<RawText<'a>>,
    port: Option<i64>,
    protocol: Option<RawText<'a>>,
}

impl<'a> AsRef<Meta<'a>> for RawSlice<'a> {
    fn as_ref(&self) -> &Meta<'a> {
        &self.metadata
    }
}

impl<'a> RawSlice<'a> {
    /// All that can be read of it, however much that is.
    fn whole(&self) -> Slice {
        let endpoints = self
            .addresses()
            .filter_map(|(endpoint, ip)| Some(endpoint.with_ip(ip?)));
        // Boxes have no spare room: slices are many, and none of them grows.
        Slice {
            endpoints: endpoints.collect::<Box<[_]>>().into_vec(),
            ports: self.ports(),
            partial: self.has_unreadable(),
            ..self.header()
        }
    }

    /// The slice without its endpoints and ports.
    fn header(&self) -> Slice {
        let service = self.label("kubernetes.io/service-name");
        let triggered = self.metadata.annotations.get(TRIGGERED);
        Slice {
            name: self.metadata.name(),
            service: service
                .map(|service| ObjectName::new(shared(&self.metadata.namespace), shared(service))),
            triggered: triggered.and_then(|text| Some(text.parse::<Timestamp>().ok()?.into())),
            endpoints: Vec::new(),
            namespaces: self.kept_namespaces(),
            partial: false,
            foreign: self.managed_by() != Some(Slice::CONTROLLER),
            ports: Vec::new(),
        }
    }

    fn namespaces(&self) -> BTreeSet<&str> {
        let pods = self
            .endpoints()
            .iter()
            .filter_map(|endpoint| endpoint.pod(&self.metadata.namespace));
        pods.map(|(namespace, _)| namespace).collect()
    }

    fn kept_namespaces(&self) -> Vec<Text> {
        let names = self
            .namespaces()
            .into_iter()
            .filter(|name| name.len() <= NAMESPACE);
        names.take(Slice::MOST_NAMESPACES).map(shared).collect()
    }

    fn ports(&self) -> Vec<SlicePort> {
        if self.ports.is_empty() {
            return vec![SlicePort {
                name: PortName::new(""),
                port: ANY_PORT,
                protocol: Protocol::Tcp,
            }];
        }
        let ports: Box<[SlicePort]> = self.ports.iter().map(RawSlicePort::slice_port).collect();
        ports.into_vec()
    }

    fn is_too_large(&self) -> bool {
        let addresses = self
            .endpoints()
            .iter()
            .map(|endpoint| endpoint.addresses.len())
            .sum();
        let ports = self.ports.len();
        addresses > ADDRESSES
            || ports > PORTS
            || pairs(addresses, ports) > Slice::MOST_PAIRS
            || self.namespaces().len() > self.kept_namespaces().len()
    }

    fn has_unreadable(&self) -> bool {
        self.addresses().any(|(_, ip)| ip.is_none())
    }

    fn managed_by(&self) -> Option<&str> {
        self.label("endpointslice.kubernetes.io/managed-by")
    }

    /// The value of a label; none if it is absent or empty.
    fn label(&self, key: &str) -> Option<&str> {
        let value = self.metadata.labels.get(key)?;
        Some(&**value).filter(|value| !value.is_empty())
    }

    /// Its endpoints; none of an FQDN slice.
    fn endpoints(&self) -> &[RawEndpoint<'a>] {
        if &*self.address_type == "FQDN" {
            &[]
        } else {
            &self.endpoints
        }
    }

    /// Every address, none where it is not usable.
    fn addresses(&self) -> impl Iterator<Item = (&RawEndpoint<'a>, Option<Addr>)> {
        let endpoints = self.endpoints().iter();
        endpoints.flat_map(|endpoint| {
            endpoint
                .addresses
                .iter()
                .map(move |ip| (endpoint, addr(ip)))
        })
    }
}

impl RawEndpoint<'_> {
    /// Its targetRef, if that is of kind Pod, with the pod's namespace: the slice's where the
    /// targetRef has none.
    fn pod<'a>(&'a self, slice: &'a str) -> Option<(&'a str, &'a TargetRef<'a>)> {
        let pod = self.target_ref.as_ref().filter(|target| target.is_pod())?;
        Some((
            if pod.namespace.is_empty() {
                slice
            } else {
                &pod.namespace
            },
            pod,
        ))
    }

    fn with_ip(&self, ip: Addr) -> SliceEndpoint {
        let pod = self.target_ref.as_ref().filter(|target| target.is_pod());
        SliceEndpoint {
            ip,
            target: pod.and_then(|pod| Uid::parse(&pod.uid)),
            ready: self.conditions.ready != Some(false),
        }
    }
}

impl TargetRef<'_> {
    fn is_pod(&self) -> bool {
        &*self.kind == "Pod"
    }
}

impl RawSlicePort<'_> {
    /// What cannot be read may be any port.
    fn slice_port(&self) -> SlicePort {
        let name = PortName::new(self.name.as_deref().unwrap_or_default());
        let number = self.port.and_then(|port| u16::try_from(port).ok());
        match (number, Protocol::parse(self.protocol.as_deref())) {
            (Some(port), Some(protocol)) => SlicePort {
                name,
                port,
                protocol,
            },
            _ => SlicePort {
                name,
                port: ANY_PORT,
                protocol: Protocol::Tcp,
            },
        }
    }
}

/// A slice `name` of the Service of that name, with these endpoints for no pod and port 80.
#[cfg(test)]
pub fn listing(name: &ObjectName, ips: impl IntoIterator<Item = Addr>) -> Slice {
    let endpoint = |ip| SliceEndpoint {
        ip,
        target: None,
        ready: true,
    };
    Slice {
        name: name.clone(),
        service: Some(name.clone()),
        endpoints: ips.into_iter().map(endpoint).collect(),
        namespaces: Vec::new(),
        ports: vec![SlicePort {
            name: PortName::new(""),
            port: 80,
            protocol: Protocol::Tcp,
        }],
        partial: false,
        foreign: false,
        triggered: None,
    }
}
