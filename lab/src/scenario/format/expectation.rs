//! Expected contents of maps, of `epguard dump` and of the log.

use serde::Deserialize;
use serde_json::Value;

/// Expected entries of a table. An expected object matches an entry that has at least its fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Entries {
    pub has: Vec<Value>,
    pub lacks: Vec<Value>,
    pub count: Option<usize>,
    pub claim: Option<String>,
}

/// Each is a list of texts that one line of the agent's log contains, in any order.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct LogLines(pub Vec<Vec<String>>);
