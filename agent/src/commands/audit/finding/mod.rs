//! Flows that lead to a pod that has ended, by the denials in the agent's pinned maps. Nothing is
//! stale without a proof.

use super::conntrack::Flow;
use crate::commands::dump::{pinned_denials, pinned_entries, pinned_services};
use crate::shared::status::Status;
use anyhow::Result;
use epguard_client::answers::audit::{AuditFinding, FlowState};
use epguard_common::{Addr, Denial, Reason, ServiceNumber, Terminated, Uid, UidState};
use epguard_core::facts::Protocol;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// What flows are compared with: findings that lack a flow.
#[derive(Debug, Default)]
pub struct KnownDenials {
    /// The addresses of Services that have a denial.
    services: BTreeMap<(SocketAddr, Protocol), ServiceNumber>,
    denied: BTreeMap<(SocketAddr, Protocol), Vec<(ServiceNumber, AuditFinding)>>,
    orphan_ips: BTreeMap<IpAddr, AuditFinding>,
}

impl KnownDenials {
    /// Reads the pinned maps. Errors: no datapath is pinned there.
    pub fn from_maps(pin_dir: &Path, status: &Status) -> Result<Self> {
        let mut known = Self::default();
        for (vip, number) in pinned_services(pin_dir)? {
            if let Some(protocol) = Protocol::from_repr(vip.protocol) {
                let address = SocketAddr::new(vip.addr.ip(), vip.port);
                known.services.insert((address, protocol), number);
            }
        }
        for (key, denial) in pinned_denials(pin_dir)? {
            // What waits for a second list is not proven.
            if denial.stopped != 0 {
                continue;
            }
            if let Some(protocol) = Protocol::from_repr(key.protocol) {
                let endpoint = SocketAddr::new(key.addr.ip(), key.port);
                let found = finding_of_denial(endpoint, key.service, &denial, status);
                let findings = known.denied.entry((endpoint, protocol)).or_default();
                findings.push((key.service, found));
            }
        }
        for (addr, terminated) in pinned_entries::<Addr, Terminated>(pin_dir, "TERMINATED")? {
            if terminated.lifted_ns == 0 {
                let endpoint = SocketAddr::new(addr.ip(), 0);
                let meant = status.pod(terminated.dead_uid);
                let found = finding_of_ended_pod(endpoint, Reason::Terminated, meant);
                known.orphan_ips.insert(addr.ip(), found);
            }
        }
        Ok(known)
    }

    /// The finding that a flow is, if any. One that was sent elsewhere is compared by its Service,
    /// any other by the IP itself. The new owner of a dead pod's IP may be the right destination: of
    /// an unknown Service such an IP is no finding.
    pub fn finding_of(&self, flow: &Flow) -> Option<AuditFinding> {
        let (found, port) = if flow.aim == flow.endpoint {
            (self.orphan_ips.get(&flow.endpoint.ip())?, None)
        } else {
            let number = self.services.get(&(flow.aim, flow.protocol));
            let mut denied = self.denied.get(&(flow.endpoint, flow.protocol))?.iter();
            let (_, found) = denied.find(|(of, found)| match number {
                Some(number) => of == number,
                None => found.reason != Reason::Reused.as_str(),
            })?;
            (found, number.map(|_| flow.aim.port()))
        };
        Some(AuditFinding {
            service: found
                .service
                .as_ref()
                .zip(port)
                .map(|(name, port)| format!("{name}:{port}")),
            endpoint: flow.endpoint,
            protocol: flow.protocol.as_str().into(),
            connection: flow.state.map(Into::into),
            at: format!("{} -> {}", flow.client, flow.aim),
            ..found.clone()
        })
    }

    /// The number of endpoints and IPs with a denial.
    pub fn endpoints(&self) -> usize {
        self.denied.len() + self.orphan_ips.len()
    }
}

fn finding_of_denial(
    endpoint: SocketAddr,
    number: ServiceNumber,
    denial: &Denial,
    status: &Status,
) -> AuditFinding {
    let owner = denial.owner_uid;
    AuditFinding {
        state: match denial.uid_state {
            UidState::Dead => FlowState::Stale,
            _ => FlowState::AllowedToEnd,
        },
        service: Some(status.service_or_number(number)),
        hit: (owner != Uid::NONE).then(|| status.pod(owner)),
        ..finding_of_ended_pod(endpoint, denial.reason, status.pod(denial.dead_uid))
    }
}

const fn finding_of_ended_pod(endpoint: SocketAddr, reason: Reason, meant: String) -> AuditFinding {
    AuditFinding {
        state: FlowState::Stale,
        service: None,
        endpoint,
        protocol: Cow::Borrowed(""),
        meant,
        hit: None,
        reason: Cow::Borrowed(reason.as_str()),
        connection: None,
        count: 1,
        at: String::new(),
    }
}

/// Sorts, and merges findings that differ only in their client: a flood of one endpoint is one
/// line.
pub fn merge_findings(findings: impl Iterator<Item = AuditFinding>) -> Vec<AuditFinding> {
    let mut merged: BTreeMap<AuditFinding, AuditFinding> = BTreeMap::new();
    for finding in findings {
        let but_client = AuditFinding {
            at: String::new(),
            ..finding.clone()
        };
        if let Some(first) = merged.get_mut(&but_client) {
            first.count += finding.count;
        } else {
            merged.insert(but_client, finding);
        }
    }
    merged.into_values().collect()
}

#[cfg(test)]
mod tests;
