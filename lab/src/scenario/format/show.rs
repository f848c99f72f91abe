//! What a presenter shows.

use serde::Deserialize;

/// What readers are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Show {
    /// Pods and endpoints, as the API shows them.
    Objects,
    /// What the callers of all bursts saw.
    Calls,
    /// What the maps hold.
    Maps,
    /// All nodes, as `kubectl epguard status` shows them.
    Fleet,
}
