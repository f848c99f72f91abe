//! Flows of one client or of many that lead to a pod that has ended.

use crate::shared::args::ServiceArgs;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::net::SocketAddr;
use strum::{Display, VariantArray};

/// Flows that lead to a pod that has ended. Sorted with the worst first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditFinding {
    /// How sure it is that nothing should lead there.
    pub state: FlowState,
    /// `namespace/name:port`; none for flows to the IP itself, or if the Service is unknown.
    pub service: Option<String>,
    /// The address that it leads to.
    pub endpoint: SocketAddr,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Cow<'static, str>,
    /// The pod that is meant, `namespace/name`.
    pub meant: String,
    /// The pod that has the IP now, if any.
    pub hit: Option<String>,
    /// Which proof holds.
    pub reason: Cow<'static, str>,
    /// State of a TCP flow, as `conntrack -L` writes it.
    pub connection: Option<Cow<'static, str>>,
    /// How many flows these are.
    pub count: usize,
    /// Client and destination of the first of them.
    pub at: String,
}

impl AuditFinding {
    /// Whether it is about one of these Services; if they are all, also if it is about the IP
    /// itself.
    pub fn is_about(&self, services: &ServiceArgs) -> bool {
        let service = self.service.as_deref().unwrap_or_default();
        services.wants(service.rsplit_once(':').map_or(service, |(name, _)| name))
    }
}

/// How sure it is that nothing should lead there.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Display,
    VariantArray,
    Serialize,
    Deserialize,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum FlowState {
    /// The pod meant is dead, or another pod has its IP.
    Stale,
    /// It has finished or is deleted, and may still serve the flows it has (retired-backend).
    #[strum(to_string = "allowed to end")]
    AllowedToEnd,
    /// The word of a newer version.
    #[serde(other)]
    Unknown,
}
