//! Denied flows, as the status socket and `epguard drops` show them.

use epguard_common::{Outcome, Reason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// The key of packets that are counted together. All words are text, so that an older version shows
/// those of a newer one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Kind {
    /// `namespace/name`; `-` for packets that were sent to the IP itself.
    pub service: String,
    /// The pod's IP and port; port 0 for packets that were sent to the IP itself.
    pub endpoint: SocketAddr,
    /// `TCP`, `UDP`, `SCTP`; `-` for packets that were sent to the IP itself.
    pub protocol: String,
    /// Which proof holds.
    #[schemars(with = "Reason")]
    pub reason: Cow<'static, str>,
    /// What was done: dropped, rejected, redirected or observed.
    #[schemars(with = "Outcome")]
    pub outcome: Cow<'static, str>,
    /// The pod that was meant.
    pub meant: String,
    /// The pod that would have been hit; `nobody` if no pod has the IP.
    pub hit: String,
}

#[cfg(any(test, feature = "testing"))]
impl Kind {
    /// TCP to 10.244.1.10:8080 of `shop/web`, which was dropped.
    pub fn sample(reason: Reason) -> Self {
        Self {
            service: "shop/web".into(),
            endpoint: SocketAddr::from(([10, 244, 1, 10], 8080)),
            protocol: "TCP".into(),
            reason: reason.as_str().into(),
            outcome: "dropped".into(),
            meant: "shop/a".into(),
            hit: "nobody".into(),
        }
    }
}

/// Packets with the same [`Kind`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dropped {
    /// What they have in common.
    #[serde(flatten)]
    pub kind: Kind,
    /// How many packets, as the kernel counts them.
    pub packets: u64,
    /// Bytes of these packets, with link-layer headers.
    pub bytes: u64,
    /// How many of these packets open a connection: TCP SYN, SCTP INIT. A retransmitted one counts
    /// again.
    pub openings: u64,
    /// Clients seen, at most eight, the latest first. The kernel reports at most 100 packets a
    /// second for each IP, so there may have been others.
    pub clients: Vec<IpAddr>,
    /// Milliseconds since the first one.
    pub first_ms_ago: u64,
    /// Milliseconds since the last one.
    pub last_ms_ago: u64,
}

/// The most clients of a [`Dropped`].
pub const CLIENTS: usize = 8;

/// Text in place of what there is none of.
pub const NONE: &str = "-";

/// Text in place of the pod that has an IP, if none has it.
pub const NOBODY: &str = "nobody";

impl Kind {
    /// The endpoint as text: the IP alone where the denial is of every port.
    pub fn endpoint(&self) -> String {
        match self.endpoint.port() {
            0 => self.endpoint.ip().to_string(),
            _ => self.endpoint.to_string(),
        }
    }
}

/// The clients as text; a dash for none.
pub fn clients(clients: &[IpAddr]) -> String {
    if clients.is_empty() {
        return NONE.to_owned();
    }
    let clients: Vec<String> = clients.iter().map(ToString::to_string).collect();
    clients.join(",")
}
