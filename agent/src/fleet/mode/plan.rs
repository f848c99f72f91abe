//! What a change of the `ConfigMap` does to each node. Pure.

use super::key::Key;
use super::policy::Policy;
use crate::commands::status::Condition;
use crate::fleet::ask::{Answer, Asked};
use crate::fleet::missing::{self, names};
use crate::shared::plain::plain;
use crate::shared::status::{ModeSource, Status};
use epguard_common::Mode;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A change, and what is known about its effect.
#[derive(Debug)]
pub struct Plan {
    key: Key,
    /// None removes the key.
    to: Option<Mode>,
    from: Option<String>,
    name: String,
    errors: Vec<String>,
    /// Nodes by what they do now.
    now: BTreeMap<String, Vec<String>>,
    unknown: String,
}

impl Plan {
    /// Compares the change with the `ConfigMap` and the nodes.
    #[must_use]
    pub fn new(key: Key, to: Option<Mode>, policy: &Policy, asked: &Asked<Condition>) -> Self {
        let mut now: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for Answer { agent, value, .. } in &asked.answers {
            if let Some(mode) = concerned(key, to, &value.status) {
                now.entry(mode).or_default().push(agent.node.clone());
            }
        }
        Self {
            key,
            to,
            from: policy.value(key.as_str()).map(|value| value.trim().to_owned()),
            name: policy.name.clone(),
            errors: policy.errors.clone(),
            now,
            unknown: missing::text(&asked.missing),
        }
    }

    /// Whether the `ConfigMap` has the value already.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.from.as_deref() == self.to.map(Mode::as_str)
    }

    /// For people: the key's values before and after, then the nodes that it concerns.
    #[must_use]
    pub fn text(&self) -> String {
        let from = self.from.as_deref().map_or("not set".into(), plain);
        let to = self.to.map_or("not set", Mode::as_str);
        let (name, key) = (&self.name, self.key.as_str());
        let mut text = if self.is_done() {
            format!("ConfigMap {name}: {key} is {to} already")
        } else {
            format!("ConfigMap {name}: {key}: {from} -> {to}")
        };
        for (mode, nodes) in &self.now {
            let count = nodes.len();
            let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
            let _ = write!(text, "\n  {count} in {mode} now: {}", names(&nodes));
        }
        if self.is_done() && !self.now.is_empty() {
            text.push_str("\n  these were set by hand: kubectl epguard mode MODE --node NODE");
        }
        if self.key == Key::CanaryMode && !self.is_done() {
            text.push_str("\n  each node with the label epguard.io/canary=true follows it");
        } else if self.now.is_empty() && !self.is_done() {
            text.push_str("\n  no node that answered changes its mode now");
        }
        for error in &self.errors {
            let _ = write!(
                text,
                "\n  it has an error, so it only lowers modes; without errors all its keys count: {}",
                plain(error)
            );
        }
        if !self.unknown.is_empty() {
            let _ = write!(text, "\n{}", self.unknown);
        }
        text
    }
}

/// The mode that the key concerns on a node, if the change matters there.
fn concerned(key: Key, to: Option<Mode>, status: &Status) -> Option<String> {
    let canary = status.mode_source == ModeSource::Canary;
    let (mode, follows) = match key {
        Key::Mode => (status.mode, !canary),
        // Only a label says which nodes are canaries: those in it now are known.
        Key::CanaryMode => (status.mode, canary),
        Key::Reason(reason) => (status.reasons.get(&reason).copied(), true),
    };
    (follows && mode != to).then(|| mode.map_or("unknown", Mode::as_str).to_owned())
}

/// `2 nodes in enforce (configmap): a, b`, a line for each mode and source.
#[must_use]
pub fn counts(asked: &Asked<Condition>) -> String {
    let mut modes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for Answer { agent, value, .. } in &asked.answers {
        let (mode, source) = (value.status.mode_name(), value.status.mode_source);
        modes
            .entry(format!("{mode} (by {source})"))
            .or_default()
            .push(&agent.node);
    }
    let lines = modes
        .iter()
        .map(|(mode, nodes)| format!("{} in {mode}: {}", nodes.len(), names(nodes)));
    lines.collect::<Vec<_>>().join("\n")
}
