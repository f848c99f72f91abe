//! Services: the addresses under which clients know them.

use super::json::{OrDefault, RawText, addr};
use super::labels::Selector;
use super::meta::{Ignored, Unreadable};
use super::object::{Object, RawObject};
use super::object_name::ObjectName;
use super::pod::Pod;
use super::protocol::Protocol;
use super::text::shared;
use epguard_common::{Action, Addr, Mode, Uid};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Addresses and ports of a Service that are read.
const VIPS: usize = 256;
const PORTS: usize = 1_024;

/// A Service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Service {
    /// The Service's own UID.
    pub uid: Uid,
    /// Namespace and name.
    pub name: ObjectName,
    /// None: no selector; the `EndpointSlice` controller does not write its slices.
    pub selector: Option<Selector>,
    /// ClusterIPs, externalIPs, load-balancer IPs that nodes translate; empty for a headless one.
    pub vips: Vec<Addr>,
    /// IPs of its load balancer that no node translates (`ipMode: Proxy`, KEP-1860).
    pub proxied: Vec<Addr>,
    /// Another proxy than the node's serves it (label `service.kubernetes.io/service-proxy-name`):
    /// what its packets carry is unknown.
    pub other_proxy: bool,
    /// What the VIPs listen on.
    pub ports: Vec<ServicePort>,
    /// It has more VIPs, ports or selector labels than are kept, or an address that cannot be read:
    /// nothing is denied of it.
    pub partial: bool,
    /// Highest mode that its annotation `epguard.io/mode` allows.
    pub bound: Mode,
    /// Action of its denials, and limits of redirects.
    pub on_denial: OnDenial,
}

/// How denials of a Service are carried out, and where its flows may be redirected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OnDenial {
    /// The action of its annotation `epguard.io/action`.
    pub action: Action,
    /// Only to endpoints on this node: `internalTrafficPolicy` or `externalTrafficPolicy` is Local.
    /// A packet does not show which of the two applies to it.
    pub local_only: bool,
    /// All flows of a client to the same endpoint: `sessionAffinity` is `ClientIP`.
    pub sticky: bool,
}

/// A port of a Service, host order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServicePort {
    /// On the VIPs.
    pub port: u16,
    /// On every node; 0: none.
    pub node_port: u16,
    /// Transport protocol.
    pub protocol: Protocol,
}

impl Service {
    /// True if a packet can be sent to the Service itself; a headless one is only a name.
    pub fn has_vip(&self) -> bool {
        !self.other_proxy
            && (!self.vips.is_empty() || self.ports.iter().any(|port| port.node_port != 0))
    }

    /// True if its denials redirect flows.
    pub fn redirects(&self) -> bool {
        self.on_denial.action == Action::Redirect
    }

    /// Whether the Service's selector picks the pod.
    pub fn selects(&self, pod: &Pod) -> bool {
        let Some(selector) = &self.selector else {
            return false;
        };
        self.name.namespace == pod.name.namespace && selector.selects(&pod.labels)
    }
}

impl Object for Service {
    const KIND: &'static str = "Service";
    const PATH: &'static str = "/api/v1/services";

    type Raw<'a> = RawService<'a>;

    fn from_named(raw: RawService<'_>, ignored: &mut Ignored) -> Result<Self, Unreadable> {
        let uid = raw.metadata.uid()?;
        let selector = raw.spec.selector.as_ref().filter(|all| !all.is_empty());
        let kept = selector.and_then(Selector::of_service);
        Ok(Self {
            uid,
            // Its slices refer to it.
            name: ObjectName::new(shared(&raw.metadata.namespace), shared(&raw.metadata.name)),
            bound: raw.metadata.bound(ignored),
            on_denial: OnDenial {
                action: raw.metadata.action(ignored),
                local_only: &*raw.spec.internal_traffic_policy == "Local"
                    || &*raw.spec.external_traffic_policy == "Local",
                sticky: &*raw.spec.session_affinity == "ClientIP",
            },
            partial: raw.has_too_many()
                || raw.addresses().any(|ip| addr(ip).is_none())
                || selector.is_some() && kept.is_none(),
            vips: sorted_addresses(raw.vips()),
            proxied: sorted_addresses(raw.proxied()),
            other_proxy: raw
                .metadata
                .labels
                .contains_key("service.kubernetes.io/service-proxy-name"),
            ports: (raw.spec.ports.iter().take(PORTS))
                .filter_map(RawServicePort::service_port)
                .collect(),
            // One that is not kept may select any pod.
            selector: selector.map(|_| kept.unwrap_or_default()),
        })
    }
}

/// What is read of its JSON.
type RawService<'a> = RawObject<'a, ServiceSpec<'a>, ServiceStatus<'a>>;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec<'a> {
    #[serde(borrow)]
    selector: Option<BTreeMap<RawText<'a>, RawText<'a>>>,
    #[serde(rename = "clusterIP")]
    cluster_ip: RawText<'a>,
    #[serde(rename = "clusterIPs")]
    cluster_ips: OrDefault<Vec<RawText<'a>>>,
    #[serde(rename = "externalIPs")]
    external_ips: OrDefault<Vec<RawText<'a>>>,
    internal_traffic_policy: RawText<'a>,
    external_traffic_policy: RawText<'a>,
    session_affinity: RawText<'a>,
    ports: OrDefault<Vec<RawServicePort<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus<'a> {
    #[serde(borrow)]
    load_balancer: LoadBalancer<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LoadBalancer<'a> {
    #[serde(borrow)]
    ingress: OrDefault<Vec<Ingress<'a>>>,
}

/// An address of a load balancer; one that has only a name has no IP.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Ingress<'a> {
    #[serde(borrow)]
    ip: RawText<'a>,
    ip_mode: RawText<'a>,
}

impl Ingress<'_> {
    /// True if packets to the IP reach the nodes as packets to the node itself.
    fn is_proxied(&self) -> bool {
        &*self.ip_mode == "Proxy"
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawServicePort<'a> {
    port: i64,
    node_port: i64,
    #[serde(borrow)]
    protocol: Option<RawText<'a>>,
}

impl RawService<'_> {
    /// All its addresses, ClusterIPs first.
    fn addresses(&self) -> impl Iterator<Item = &RawText<'_>> {
        self.translated().chain(self.ingress(true))
    }

    /// Those that nodes translate.
    fn translated(&self) -> impl Iterator<Item = &RawText<'_>> {
        let spec = &self.spec;
        let all = [&spec.cluster_ip]
            .into_iter()
            .chain(&*spec.cluster_ips)
            .chain(&*spec.external_ips);
        // Proxies skip a headless Service whole, externalIPs included
        // (pkg/proxy/util.ShouldSkipService).
        let is_headless = &*spec.cluster_ip == "None";
        all.chain(self.ingress(false))
            .filter(move |ip| !is_headless && !ip.is_empty())
    }

    fn ingress(&self, proxied: bool) -> impl Iterator<Item = &RawText<'_>> {
        let ingress = self.status.load_balancer.ingress.iter();
        let ips = ingress
            .filter(move |ingress| ingress.is_proxied() == proxied)
            .map(|ingress| &ingress.ip);
        ips.filter(|ip| !ip.is_empty())
    }

    fn has_too_many(&self) -> bool {
        self.addresses().count() > VIPS || self.spec.ports.len() > PORTS
    }

    fn vips(&self) -> impl Iterator<Item = Addr> {
        self.translated().take(VIPS).filter_map(|ip| addr(ip))
    }

    fn proxied(&self) -> impl Iterator<Item = Addr> {
        self.ingress(true).take(VIPS).filter_map(|ip| addr(ip))
    }
}

fn sorted_addresses(addrs: impl Iterator<Item = Addr>) -> Vec<Addr> {
    let mut addrs: Vec<Addr> = addrs.collect();
    addrs.sort_unstable();
    addrs.dedup();
    addrs
}

impl RawServicePort<'_> {
    fn service_port(&self) -> Option<ServicePort> {
        Some(ServicePort {
            port: u16::try_from(self.port).ok().filter(|&port| port != 0)?,
            node_port: u16::try_from(self.node_port).unwrap_or(0),
            protocol: Protocol::parse(self.protocol.as_deref())?,
        })
    }
}
