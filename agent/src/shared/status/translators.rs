//! What records which Service a packet was aimed at, for the status.

use epguard_common::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

/// The translators whose records the programs read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Translators {
    /// Whether the programs read netfilter's conntrack entries.
    pub conntrack: bool,
    /// Names of Cilium's maps that the programs look up.
    pub cilium: Vec<String>,
    /// What keeps packets from being judged by their Service.
    #[serde(deserialize_with = "super::lenient::items")]
    pub gaps: Vec<Gap>,
}

/// Packets that have no record, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    /// Its kind.
    pub cause: Cause,
    /// The cause with its names.
    pub detail: String,
}

/// Why packets have no record.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Cause {
    /// The kernel does not show its conntrack entries to programs.
    Kernel,
    /// The module `nf_conntrack` is not loaded, and there is no other translator.
    NotLoaded,
    /// IPVS translates without conntrack.
    Ipvs,
    /// A flowtable of nftables forwards packets without conntrack.
    Flowtable,
    /// A map of Cilium's has an unknown shape.
    Cilium,
    /// Entries contradict their packets.
    Unreadable,
}

impl Cause {
    /// As what the packets are counted.
    #[must_use]
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::Unreadable => Outcome::UnreadableConnection,
            Self::Kernel | Self::NotLoaded | Self::Ipvs | Self::Flowtable | Self::Cilium => {
                Outcome::NoConnection
            }
        }
    }
}
