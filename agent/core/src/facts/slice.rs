//! `EndpointSlices`: which (IP, port) a Service lists, and which pod is meant.

use super::raw_slice::{RawAddress, RawPort, RawSlice};
use super::{Fact, Ignored, Name, Object, Part, Pod, Protocol, Unreadable, hash, nonzero_hash};
use epguard_common::{Addr, Uid};
use jiff::Timestamp;
use std::num::NonZeroU64;
use std::time::SystemTime;

/// One `EndpointSlice`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Namespace and name of the slice.
    pub name: Name,
    /// Namespace and name of the Service (label `kubernetes.io/service-name`); none for an orphan.
    pub service: Option<Name>,
    /// Endpoints with a usable address.
    pub endpoints: Vec<SliceEndpoint>,
    /// It has addresses that cannot be read: any IP may be one of them, for whichever pod.
    pub partial: bool,
    /// Something else than the `EndpointSlice` controller writes it (label `endpointslice.kubernetes.io/managed-by`): which pods it lists
    /// next does not follow from the Service's selector.
    pub foreign: bool,
    /// Target ports; those without a number are left out, since packets carry numbers.
    pub ports: Vec<SlicePort>,
    /// When the pod or Service changed that the slice was last written for, by the API server's clock. For
    /// measurements, never a reason to deny (annotation `endpoints.kubernetes.io/last-change-trigger-time`).
    pub triggered: Option<SystemTime>,
}

/// One address of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SliceEndpoint {
    /// The endpoint's IP.
    pub ip: Addr,
    /// The pod that is meant; none without a Pod targetRef or with an empty UID.
    pub target: Option<Uid>,
    /// Namespace and name of the targetRef of kind Pod; none where it has no name.
    pub target_name: Option<PodName>,
    /// `conditions.ready`; true where the slice has none (discovery/v1 `EndpointConditions`).
    pub ready: bool,
}

/// A target port of a slice, host order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlicePort {
    /// Which of the Service's ports it stands for.
    pub name: PortName,
    /// Host order, never 0.
    pub port: u16,
    /// TCP where the slice has none.
    pub protocol: Protocol,
}

/// The name of a port, unique within its Service; only a hash of 32 bits is kept, for there are as many as endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortName(u32);

impl PortName {
    /// The name as the API writes it; empty where the Service has one port only.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(u32::try_from(hash(name) >> 32).unwrap_or_default())
    }
}

/// Namespace and name of a pod; only its hash is kept, for there are as many as endpoints. Two names with one hash can only
/// lift a denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodName(NonZeroU64);

impl PodName {
    /// The least of all, for ranges.
    pub(crate) const MIN: Self = Self(NonZeroU64::MIN);
    /// Stands for every name.
    pub(crate) const ANY: Self = Self(NonZeroU64::MAX);

    /// The name of a pod object.
    #[must_use]
    pub fn of_pod(pod: &Pod) -> Self {
        let (namespace, name) = &pod.name;
        Self::new(namespace.as_str(), name.as_str())
    }

    /// The name of a pod in a namespace.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(nonzero_hash((namespace, name)))
    }
}

/// Written by the `EndpointSlice` controller, RFC 3339.
const TRIGGERED: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// More than the API server accepts in one slice (`maxPorts`, discovery/validation).
const MAX_PORTS: usize = 20_000;

impl Slice {
    /// The `EndpointSlice` controller's name in a slice's `managed-by` label.
    pub const CONTROLLER: &'static str = "endpointslice-controller.k8s.io";
}

impl Object for Slice {
    const KIND: &'static str = "EndpointSlice";
    const PATH: &'static str = "/apis/discovery.k8s.io/v1/endpointslices";

    type Raw<'a> = RawSlice<'a>;

    fn part(part: Part<Self>) -> Option<Fact> {
        Some(Fact::SlicesOf(part))
    }

    fn from_named(raw: RawSlice<'_>, _: &mut Ignored) -> Result<Self, Unreadable> {
        let RawSlice { metadata, ports, .. } = &raw;
        let endpoints = raw.addresses().map(|address| endpoint(&address, &metadata.namespace));
        let ports = ports.iter().take(MAX_PORTS).filter_map(RawPort::port);
        Ok(Self {
            name: metadata.name(),
            service: raw.service(),
            triggered: metadata.annotations.get(TRIGGERED).and_then(|text| time(text)),
            endpoints: exactly(endpoints),
            partial: raw.is_partial(),
            foreign: raw.managed_by() != Some(Self::CONTROLLER),
            ports: exactly(ports),
        })
    }
}

/// Collects without spare room: slices are many, and none of them grows.
fn exactly<T>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.shrink_to_fit();
    all
}

fn time(text: &str) -> Option<SystemTime> {
    text.parse::<Timestamp>().ok().map(SystemTime::from)
}

fn endpoint(address: &RawAddress<'_>, namespace: &str) -> SliceEndpoint {
    let named = address.pod.filter(|pod| !pod.name.is_empty());
    SliceEndpoint {
        ip: address.ip,
        target: address.pod.and_then(|pod| Uid::parse(&pod.uid)),
        target_name: named.map(|pod| PodName::new(pod.namespace_or(namespace), &pod.name)),
        ready: address.ready,
    }
}

impl RawPort<'_> {
    fn port(&self) -> Option<SlicePort> {
        let port = u16::try_from(self.port?).ok().filter(|&port| port != 0)?;
        Some(SlicePort {
            name: PortName::new(self.name.as_deref().unwrap_or_default()),
            port,
            protocol: Protocol::parse(self.protocol.as_deref())?,
        })
    }
}
