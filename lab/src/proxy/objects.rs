//! The fields of Services and `EndpointSlices` that kube-proxy reads.

use serde::Deserialize;

use super::Protocol;

/// A Service. Addresses stay text, so that one that cannot be parsed does not lose the others.
#[derive(Debug, Deserialize)]
pub(super) struct Service {
    pub(super) metadata: Metadata,
    pub(super) spec: ServiceSpec,
    #[serde(default)]
    pub(super) status: ServiceStatus,
}

#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: String,
    #[serde(default)]
    labels: std::collections::BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceSpec {
    #[serde(default, rename = "type")]
    pub(super) kind: String,
    #[serde(default, rename = "clusterIP")]
    pub(super) cluster_ip: String,
    #[serde(default, rename = "clusterIPs")]
    pub(super) cluster_ips: Vec<String>,
    #[serde(default, rename = "externalIPs")]
    pub(super) external_ips: Vec<String>,
    #[serde(default)]
    pub(super) session_affinity: String,
    #[serde(default)]
    pub(super) external_traffic_policy: String,
    #[serde(default)]
    pub(super) ports: Vec<ServicePort>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServicePort {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) protocol: Protocol,
    pub(super) port: u16,
    #[serde(default)]
    pub(super) node_port: u16,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ServiceStatus {
    pub(super) load_balancer: LoadBalancer,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LoadBalancer {
    pub(super) ingress: Vec<Ingress>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Ingress {
    pub(super) ip: String,
}

/// An `EndpointSlice`. Its lists may be null, as Go writes empty ones.
#[derive(Debug, Deserialize)]
pub(super) struct Slice {
    metadata: Metadata,
    pub(super) endpoints: Option<Vec<Endpoint>>,
    pub(super) ports: Option<Vec<SlicePort>>,
}

impl Slice {
    pub(super) fn belongs_to(&self, service: &Metadata) -> bool {
        let name = self.metadata.labels.get("kubernetes.io/service-name");
        self.metadata.namespace == service.namespace && name == Some(&service.name)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct SlicePort {
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) protocol: Protocol,
    pub(super) port: Option<u16>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Endpoint {
    pub(super) addresses: Vec<String>,
    pub(super) node_name: Option<String>,
    #[serde(default)]
    conditions: Conditions,
}

#[derive(Debug, Default, Deserialize)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

impl Endpoint {
    /// Nil means true.
    pub(super) fn is_ready(&self) -> bool {
        self.conditions.ready.unwrap_or(true)
    }

    /// Where a Service has no ready endpoint, those that still serve while they terminate take over (KEP-1669).
    pub(super) fn is_fallback(&self) -> bool {
        let serving = self.conditions.serving.unwrap_or_else(|| self.is_ready());
        serving && self.conditions.terminating.unwrap_or(false)
    }
}
