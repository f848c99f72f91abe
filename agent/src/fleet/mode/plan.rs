//! What a change of the `ConfigMap` does to each node. Pure.

use super::policy::{Key, Policy};
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

/// A change, and what is known about the cluster.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The key that changes.
    pub key: Key,
    /// None removes the key.
    pub to: Option<Mode>,
    /// The `ConfigMap` as it is.
    pub policy: &'a Policy,
    /// The status of each node.
    pub asked: &'a Asked<Condition>,
    /// The nodes with their labels. If none, each agent's status shows whether its node is a canary.
    pub nodes: Option<&'a Nodes>,
}

/// What a change does to each node.
#[derive(Debug, Default)]
struct Effects<'a> {
    /// Nodes whose mode changes, by what they do now.
    now: BTreeMap<&'static str, Vec<&'a str>>,
    /// Nodes whose modes are not the `ConfigMap`'s, by how they differ, and whether the change ends that.
    by_hand: BTreeMap<(String, bool), Vec<&'a str>>,
    /// Nodes whose agents watch another `ConfigMap`, by its name, or none.
    elsewhere: BTreeMap<Option<&'a String>, Vec<&'a str>>,
}

impl<'a> Plan<'a> {
    /// Compares the change with the `ConfigMap` and the nodes.
    fn effects(&self) -> Effects<'a> {
        let mut effects = Effects::default();
        for answer in &self.asked.answers {
            let (node, status) = (answer.node(), &answer.value.status);
            let config_map = answer.agent.config_map.as_ref();
            if config_map != Some(&self.policy.name) {
                effects.elsewhere.entry(config_map).or_default().push(node);
                continue;
            }
            let canary = is_canary(self.nodes, node, status);
            let follows = match self.key {
                Key::Mode => !(canary && self.policy.has_canary_mode()),
                Key::CanaryMode => canary,
                Key::Reason(_) => true,
            };
            if let Some(mode) = changed(self.key, self.to, status).filter(|_| follows) {
                effects.now.entry(mode).or_default().push(node);
            }
            let modes = self.policy.modes.as_ref();
            if let Some(how) = modes.and_then(|modes| deviation(modes, status, canary)) {
                effects.by_hand.entry((how, follows)).or_default().push(node);
            }
        }
        effects
    }

    fn from(&self) -> Option<&str> {
        self.policy.value(self.key.as_str()).map(str::trim)
    }

    /// Whether the `ConfigMap` has the value already.
    pub fn is_done(&self) -> bool {
        self.from() == self.to.map(Mode::as_str)
    }

    /// For people: the key's values before and after, then the nodes that it concerns.
    pub fn text(&self) -> String {
        let from = self.from().map_or("not set".into(), plain);
        let to = self.to.map_or("not set", Mode::as_str);
        let (name, key) = (&self.policy.name, self.key.as_str());
        let effects = self.effects();
        let mut text = if self.is_done() {
            format!("ConfigMap {name}: {key} is {to} already")
        } else {
            format!("ConfigMap {name}: {key}: {from} -> {to}")
        };
        for (mode, nodes) in &effects.now {
            let _ = write!(text, "\n  {} in {mode} now: {}", nodes.len(), names(nodes));
        }
        for ((how, ends), nodes) in &effects.by_hand {
            let then = if *ends && !self.is_done() {
                "this change ends that"
            } else {
                "it stays: kubectl epguard mode MODE --node NODE"
            };
            let _ = write!(text, "\n  switched by hand: {} ({how}); {then}", names(nodes));
        }
        for (other, nodes) in &effects.elsewhere {
            let other = match other {
                Some(name) => &format!("ConfigMap {name}"),
                None => "no ConfigMap",
            };
            let _ = write!(
                text,
                "\n  not for {}: --fleet-config names {other} there",
                names(nodes)
            );
        }
        if self.key == Key::CanaryMode && !self.is_done() {
            text.push_str("\n  each node with the label epguard.io/canary=true follows it");
        } else if effects.now.is_empty() && !self.is_done() {
            text.push_str("\n  no node that answered changes its mode now");
        }
        let modes = self.policy.modes.iter();
        for error in modes.flat_map(|modes| &modes.errors) {
            let _ = write!(
                text,
                "\n  it has an error, so it only lowers modes; without errors all its keys count: {}",
                plain(error)
            );
        }
        if !self.asked.missing.is_empty() {
            let _ = write!(text, "\n{}", missing::text(&self.asked.missing));
        }
        text
    }
}

/// The mode of which the key has another one; none if a node has that mode.
fn changed(key: Key, to: Option<Mode>, status: &Status) -> Option<&'static str> {
    let mode = match key {
        Key::Mode | Key::CanaryMode => status.mode,
        Key::Reason(reason) => status.reasons.get(&reason).copied(),
    };
    (mode != to).then(|| mode.map_or("unknown", Mode::as_str))
}

/// `2 in enforce (by configmap): a, b`, a line for each mode and source. Nodes that do not watch this `ConfigMap` have lines of
/// their own.
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
