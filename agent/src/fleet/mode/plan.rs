//! What a change of the `ConfigMap` does to each node. Pure.

use super::key::Key;
use super::policy::Policy;
use crate::commands::status::Condition;
use crate::fleet::ask::{Answer, Asked};
use crate::fleet::missing::{self, names};
use crate::fleet::nodes::Nodes;
use crate::fleet::status::{deviation, is_canary};
use crate::shared::plain::plain;
use crate::shared::status::Status;
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
    /// Nodes whose modes are not the `ConfigMap`'s, by how they differ, and whether the change ends that.
    by_hand: BTreeMap<(String, bool), Vec<String>>,
    /// Nodes whose agents watch another `ConfigMap`, by its name, or none.
    elsewhere: BTreeMap<Option<String>, Vec<String>>,
    unknown: String,
}

impl Plan {
    /// Compares the change with the `ConfigMap` and the nodes. Without `nodes`, agents say whether they are canaries.
    #[must_use]
    pub fn new(
        key: Key,
        to: Option<Mode>,
        policy: &Policy,
        asked: &Asked<Condition>,
        nodes: Option<&Nodes>,
    ) -> Self {
        let mut plan = Self {
            key,
            to,
            from: policy.value(key.as_str()).map(|value| value.trim().to_owned()),
            name: policy.name.clone(),
            errors: policy
                .modes
                .as_ref()
                .map(|modes| modes.errors.clone())
                .unwrap_or_default(),
            now: BTreeMap::new(),
            by_hand: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            unknown: missing::text(&asked.missing),
        };
        for answer in &asked.answers {
            plan.add(answer, policy, nodes);
        }
        plan
    }

    fn add(
        &mut self,
        Answer { agent, value, .. }: &Answer<Condition>,
        policy: &Policy,
        nodes: Option<&Nodes>,
    ) {
        let (node, status) = (agent.node.clone(), &value.status);
        if agent.config_map.as_ref() != Some(&self.name) {
            self.elsewhere
                .entry(agent.config_map.clone())
                .or_default()
                .push(node);
            return;
        }
        let modes = policy.modes.as_ref();
        let canary = is_canary(nodes, &node, status);
        let by_canary_mode = canary && policy.has_canary_mode();
        let follows = match self.key {
            Key::Mode => !by_canary_mode,
            Key::CanaryMode => canary,
            Key::Reason(_) => true,
        };
        if let Some(mode) = changed(self.key, self.to, status).filter(|_| follows) {
            self.now.entry(mode).or_default().push(node.clone());
        }
        if let Some(how) = modes.and_then(|modes| deviation(modes, status, canary)) {
            self.by_hand.entry((how, follows)).or_default().push(node);
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
        for ((how, ends), nodes) in &self.by_hand {
            let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
            let then = if *ends && !self.is_done() {
                "this change ends that"
            } else {
                "it stays: kubectl epguard mode MODE --node NODE"
            };
            let _ = write!(text, "\n  switched by hand: {} ({how}); {then}", names(&nodes));
        }
        for (other, nodes) in &self.elsewhere {
            let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
            let other = other
                .as_ref()
                .map_or("no ConfigMap".to_owned(), |name| format!("ConfigMap {name}"));
            let _ = write!(
                text,
                "\n  not for {}: --fleet-config names {other} there",
                names(&nodes)
            );
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

/// The mode of which the key has another one; none if a node has that mode.
fn changed(key: Key, to: Option<Mode>, status: &Status) -> Option<String> {
    let mode = match key {
        Key::Mode | Key::CanaryMode => status.mode,
        Key::Reason(reason) => status.reasons.get(&reason).copied(),
    };
    (mode != to).then(|| mode.map_or("unknown", Mode::as_str).to_owned())
}

/// `2 in enforce (by configmap): a, b`, a line for each mode and source. Nodes that do not watch this `ConfigMap` have lines of
/// their own.
#[must_use]
pub fn counts(asked: &Asked<Condition>, config_map: Option<&str>) -> String {
    let mut modes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for Answer { agent, value, .. } in &asked.answers {
        let (mode, source) = (value.status.mode_name(), value.status.mode_source);
        let other = match (&agent.config_map, config_map) {
            (Some(own), Some(this)) if own != this => format!(" {own}"),
            (None, Some(_)) => ", no ConfigMap".to_owned(),
            _ => String::new(),
        };
        modes
            .entry(format!("{mode} (by {source}{other})"))
            .or_default()
            .push(&agent.node);
    }
    let lines = modes
        .iter()
        .map(|(mode, nodes)| format!("{} in {mode}: {}", nodes.len(), names(nodes)));
    lines.collect::<Vec<_>>().join("\n")
}
