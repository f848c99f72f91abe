//! A flow that leads to a pod that has ended.

use super::since::Since;
use epguard_common::{Reason, Uid};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::net::SocketAddr;
use strum::{Display, EnumMessage, VariantArray};

/// Flows that lead to a pod that has ended. Sorted with the worst first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How sure it is that nothing should lead there.
    pub state: State,
    /// `namespace/name`; none for flows to the IP itself, or if the Service is unknown.
    pub service: Option<String>,
    /// The Service's port.
    pub port: Option<u16>,
    /// The address that it leads to.
    pub endpoint: SocketAddr,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Cow<'static, str>,
    /// The pod that is meant, `namespace/name`.
    pub meant: String,
    /// The pod that has the IP now, if any.
    pub hit: Option<String>,
    /// Which proof holds.
    pub reason: Reason,
    /// Since when the pod that is meant has ended; none if the agent no longer keeps that.
    pub since: Option<Since>,
    /// Packets of their clients; none where the kernel does not count.
    pub packets: Option<u64>,
    /// State of a TCP flow, as `conntrack -L` writes it.
    pub connection: Option<Cow<'static, str>>,
    /// How many flows these are.
    pub count: usize,
    /// Client and destination of the first of them.
    pub at: String,
    /// UID of the pod that is meant.
    #[serde(skip)]
    pub dead: Uid,
}

/// How sure it is that nothing should lead there: `--help` has these names and sentences.
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
    EnumMessage,
    Serialize,
    Deserialize,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// the pod meant is dead, or another pod has its IP
    Stale,
    /// it has finished or is deleted, and may still serve the flows it has (retired-backend)
    #[strum(to_string = "allowed to end")]
    AllowedToEnd,
    /// the agent waits for a second list (epguard breaker)
    Held,
}

/// Sorts, and merges findings that differ only in their client: a flood of one endpoint is one line.
pub fn merge(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort();
    let mut merged: Vec<Finding> = Vec::new();
    for finding in findings {
        match merged.iter_mut().find(|first| same_but_client(first, &finding)) {
            Some(first) => {
                first.count += finding.count;
                first.packets = first
                    .packets
                    .zip(finding.packets)
                    .map(|(a, b)| a.saturating_add(b));
            }
            None => merged.push(finding),
        }
    }
    merged
}

fn same_but_client(a: &Finding, b: &Finding) -> bool {
    let without = |finding: &Finding| Finding {
        packets: None,
        count: 0,
        at: String::new(),
        ..finding.clone()
    };
    a.endpoint == b.endpoint && without(a) == without(b)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A stale flow.
    pub fn flow() -> Finding {
        Finding {
            state: State::Stale,
            service: Some("shop/web".into()),
            port: Some(80),
            endpoint: "10.244.1.10:8080".parse().unwrap(),
            protocol: "TCP".into(),
            meant: "shop/a".into(),
            hit: None,
            reason: Reason::DeadBackend,
            since: None,
            packets: Some(3),
            connection: Some("SYN_SENT".into()),
            count: 1,
            at: "10.244.1.5:40000 -> 10.96.0.1:80".into(),
            dead: Uid::NONE,
        }
    }

    #[test]
    fn flows_of_many_clients_to_one_endpoint_in_one_state_are_one_line() {
        let client = |port: u16| Finding {
            at: format!("10.244.1.5:{port} -> 10.96.0.1:80"),
            ..flow()
        };
        let established = Finding {
            connection: Some("ESTABLISHED".into()),
            ..flow()
        };
        let mut findings: Vec<Finding> = (40_000..40_193).map(client).collect();
        findings.push(established);
        let merged = merge(findings);
        let counts: Vec<_> = merged
            .iter()
            .map(|one| (one.connection.as_deref(), one.count, one.packets))
            .collect();
        assert_eq!(
            counts,
            [
                (Some("ESTABLISHED"), 1, Some(3)),
                (Some("SYN_SENT"), 193, Some(579)),
            ]
        );
        assert_eq!(merged[1].at, "10.244.1.5:40000 -> 10.96.0.1:80");
    }
}
