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

impl Problem {
    /// A problem and its remedy.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (what, remedy) = (what.into(), remedy.into());
        Self { what, remedy }
    }
}

/// ` (namespace a: 3, b: 1)`: the namespaces with most denials that did not fit; empty if there are none.
pub(super) fn largest(by_namespace: &BTreeMap<String, usize>) -> String {
    const NAMED: usize = 3;
    if by_namespace.is_empty() {
        return String::new();
    }
    let mut largest: Vec<(&String, &usize)> = by_namespace.iter().collect();
    largest.sort_by_key(|(_, denials)| Reverse(**denials));
    let named = { largest.iter().take(NAMED) }.map(|(namespace, denials)| format!("{namespace}: {denials}"));
    format!(" (namespace {})", named.collect::<Vec<_>>().join(", "))
}

/// The first names, and how many others there are: `a, b and 2 more`.
pub(super) fn first(names: &[String], most: usize) -> String {
    let (first, others) = names.split_at(names.len().min(most));
    match others.len() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// `12 s`.
pub(super) fn seconds(ms: u64) -> String {
    format!("{} s", ms / 1000)
}
