//! What a presenter shows.

use serde::Deserialize;

/// What readers are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Show {
    Objects,
    Calls,
    Maps,
    Fleet,
}
