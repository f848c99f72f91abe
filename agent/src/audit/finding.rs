//! Something that leads to a pod that has ended.

use super::since::Since;
use epguard_common::Uid;
use serde::Serialize;
use std::net::SocketAddr;

/// A flow or a rule. Sorted with the worst first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How bad that is.
    pub state: State,
    /// What it is.
    pub kind: Kind,
    /// `namespace/name`; none for what is aimed at the IP itself, or at nobody knows what.
    pub service: Option<String>,
    /// Where it leads.
    pub endpoint: SocketAddr,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: &'static str,
    /// The pod that is meant, `namespace/name`.
    pub meant: String,
    /// The pod that has the IP now, if any.
    pub hit: Option<String>,
    /// `dead-backend`, `reused`, `retired-backend` or `terminated`.
    pub reason: &'static str,
    /// Since when the pod that is meant has ended; none if the agent has forgotten.
    pub since: Option<Since>,
    /// What a flow's client has sent, or what a rule has met, which for NAT are the packets that open flows; none where the
    /// kernel does not count.
    pub packets: Option<u64>,
    /// Client and aim of a flow; family, table and chain of a rule.
    pub at: String,
    /// UID of the pod that is meant.
    #[serde(skip)]
    pub dead: Uid,
}

/// How sure it is that nothing should lead there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The pod is dead.
    Stale,
    /// The pod has finished or is deleted, is not proven dead, and may still serve the flows that it has.
    AllowedToEnd,
    /// Only one list says so, or it says too much at once: the agent waits for a second one.
    Held,
}

/// What leads there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A flow that the kernel tracks.
    Conntrack,
    /// A rule of nftables.
    NftablesRule,
}

impl State {
    /// As people read it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::AllowedToEnd => "allowed to end",
            Self::Held => "held",
        }
    }
}

impl Kind {
    /// As people read it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Conntrack => "conntrack",
            Self::NftablesRule => "nftables rule",
        }
    }
}
