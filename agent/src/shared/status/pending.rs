//! Pending denials, for the status.

use epguard_core::state::Why;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A Service with pending denials, which wait for a second list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingDenials {
    /// `namespace/name`.
    pub service: String,
    /// Endpoints (IPs) that are only observed.
    pub held: usize,
    /// Endpoints (IPs) that were ready at any time in the last 5 minutes.
    pub ready_recently: usize,
    /// For how many milliseconds at least one denial has been pending.
    pub since_ms: u64,
    /// Why they are pending.
    #[serde(deserialize_with = "super::lenient::value")]
    pub why: Why,
}
