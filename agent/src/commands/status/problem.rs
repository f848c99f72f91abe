//! One problem, and the texts that several have in common.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Something that keeps epguard from its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The problem, with the name of the thing and the cause.
    pub what: String,
    /// The remedy.
    pub remedy: String,
}

/// ` (namespace a: 3, b: 1)`: the namespaces with most denials that did not fit; empty if there are none.
pub(super) fn largest(by_namespace: &BTreeMap<String, usize>) -> String {
    const NAMED: usize = 3;
    let mut largest: Vec<(&String, &usize)> = by_namespace.iter().collect();
    largest.sort_by_key(|(_, denials)| Reverse(**denials));
    let named: Vec<String> = (largest.iter().take(NAMED))
        .map(|(namespace, denials)| format!("{namespace}: {denials}"))
        .collect();
    if named.is_empty() {
        return String::new();
    }
    format!(" (namespace {})", named.join(", "))
}

/// `12 s`.
pub(super) fn seconds(ms: u64) -> String {
    format!("{} s", ms / 1000)
}
