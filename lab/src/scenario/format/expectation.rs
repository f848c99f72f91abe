//! What maps, `epguard dump` and the log must show.

use serde::Deserialize;
use serde_json::Value;

/// What a table must show. An expected object matches one that has at least its fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Entries {
    /// Each matches some entry.
    pub has: Vec<Value>,
    /// None matches any entry.
    pub lacks: Vec<Value>,
    /// The number of entries.
    pub count: Option<usize>,
}

/// Each is a list of texts that one line of the agent's log contains, in any order.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct LogLines(pub Vec<Vec<String>>);
