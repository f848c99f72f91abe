//! A list of which this version may not know every entry, as when a newer agent has a new reason.

use super::ask::Answer;
use super::missing::names;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Line<T> {
    /// As this version knows it.
    Known(T),
    /// Only for `-o json|yaml`.
    Other(Value),
}

/// The entries that this version knows.
pub fn known<T: Clone>(lines: &[Line<T>]) -> Vec<T> {
    let known = lines.iter().filter_map(|line| match line {
        Line::Known(line) => Some(line.clone()),
        Line::Other(_) => None,
    });
    known.collect()
}

/// How many entries a table does not show; none if it shows all.
pub fn left_out<T>(answers: &[Answer<Vec<Line<T>>>]) -> Option<String> {
    let others = |answer: &Answer<Vec<Line<T>>>| {
        let lines = answer.value.iter();
        lines.filter(|line| matches!(line, Line::Other(_))).count()
    };
    let with_others = answers.iter().filter(|answer| others(answer) > 0);
    let nodes: Vec<&str> = with_others.map(Answer::node).collect();
    let count: usize = answers.iter().map(others).sum();
    (count > 0).then(|| {
        format!(
            "{count} more on {}, in words of another version: use the plugin of its version, or -o json",
            names(&nodes)
        )
    })
}
