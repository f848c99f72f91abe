//! The verdict about packets of one kind.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The verdict about packets of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyVerdict {
    /// The Service that the packets are aimed at: `shop/web`; none: the IP itself.
    pub service: Option<String>,
    /// Target port; none: any.
    pub port: Option<u16>,
    /// `TCP`, `UDP`, `SCTP`; none: any.
    pub protocol: Option<String>,
    /// `deny`, `stopped` (by the breaker) or `pass`. The mode decides whether a deny drops.
    pub verdict: Cow<'static, str>,
    /// Why it is denied; none if it passes.
    pub reason: Option<Cow<'static, str>>,
    /// The proof, or what prevents one.
    pub because: String,
    /// What would change it.
    pub change: String,
}

impl WhyVerdict {
    /// The place in which it is shown: denials first, then those that wait.
    pub fn rank(&self) -> u8 {
        match &*self.verdict {
            "deny" => 0,
            "stopped" => 1,
            _ => 2,
        }
    }
}

/// Packets pass: why, and what would end it.
pub(super) fn pass(because: impl Into<String>, change: impl Into<String>) -> WhyVerdict {
    WhyVerdict {
        verdict: "pass".into(),
        because: because.into(),
        change: change.into(),
        ..WhyVerdict::default()
    }
}
