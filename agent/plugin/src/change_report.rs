//! What became of a change of the mode policy: a text, or one document.

use super::answers::{group_by_value, name_nodes};
use super::following::{Following, NodeMode};
use super::scope::FleetOutput;
use anyhow::Result;
use epguard_client::shared::output::print;
use epguard_client::shared::plain::plain;
use epguard_client::shared::status::ModeSource;
use epguard_common::Mode;
use serde::Serialize;
use std::fmt::Write as _;

/// What became of a change.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeReport {
    /// `namespace/name` of the `ConfigMap`.
    pub config_map: String,
    /// Each key that was to change.
    #[serde(rename = "changes")]
    pub keys: Vec<KeyChange>,
    /// False if each key had its value already.
    #[serde(rename = "written")]
    pub is_written: bool,
    /// The nodes that follow, and the others.
    #[serde(flatten)]
    following: Following,
    /// Nodes with a higher mode than the new one of all nodes, such as canaries.
    #[serde(rename = "higherMode")]
    higher_modes: Vec<NodeMode>,
    /// Who has changed a key since.
    pub taken_back: Option<TakenBack>,
}

/// A key, and its values before and after; none: it is not set.
#[derive(Debug, Serialize)]
pub struct KeyChange {
    /// Its name.
    pub key: String,
    /// The value that was read.
    pub before: Option<String>,
    /// The value that is asked for.
    pub after: Option<String>,
}

/// A key that another writer has changed since.
#[derive(Debug, Serialize)]
pub struct TakenBack {
    /// Its name.
    pub key: String,
    /// Its value now; none: it is not set.
    pub found: Option<String>,
    /// The field manager that wrote it, if that is recorded.
    pub by: Option<String>,
}

impl ChangeReport {
    /// Of a change that is not written yet, so that no node follows.
    pub fn new(config_map: &str, keys: Vec<KeyChange>) -> Self {
        Self {
            config_map: config_map.to_owned(),
            keys,
            is_written: false,
            following: Following::default(),
            higher_modes: Vec::new(),
            taken_back: None,
        }
    }

    /// Takes the nodes that follow, and the others. `mode` is the new one of all nodes.
    pub fn take(&mut self, following: Following, mode: Option<Mode>) {
        self.higher_modes = mode.map_or_else(Vec::new, |mode| following.above(mode));
        self.following = following;
    }

    /// True if all nodes follow.
    pub const fn is_complete(&self) -> bool {
        self.following.is_complete()
    }

    /// For people: how many nodes follow, the others by cause, and those with a higher mode.
    pub fn text(&self) -> String {
        let mut lines = vec![self.following.text()];
        let higher = self
            .higher_modes
            .iter()
            .map(|node| ((node.mode, node.set_by), &*node.node));
        for ((mode, set_by), nodes) in group_by_value(higher) {
            let count = nodes.len();
            let names = name_nodes(&nodes);
            let mut line = format!("{count} still in {mode} (by {set_by}): {names}");
            if set_by == ModeSource::Canary {
                let new = self.keys.iter().find_map(|key| key.after.as_deref());
                let new = new.unwrap_or_default();
                let _ = write!(
                    line,
                    "; `kubectl epguard mode {new} --canary` changes canaries"
                );
            }
            lines.push(line);
        }
        lines.join("\n")
    }

    /// Prints the document; nothing for people. Errors: the output fails.
    pub fn print_document(&self, output: FleetOutput) -> Result<()> {
        if output.is_for_people() {
            return Ok(());
        }
        print(&output.of_documents().text(self, |_| String::new())?)
    }
}

impl KeyChange {
    /// True if the key gets another value.
    pub fn is_news(&self) -> bool {
        self.before != self.after
    }

    /// `mode: observe -> enforce`, or that it has the value already.
    pub fn text(&self) -> String {
        let key = &self.key;
        let [before, after] =
            [&self.before, &self.after].map(|value| plain(value.as_deref().unwrap_or("not set")));
        if self.is_news() {
            format!("{key}: {before} -> {after}")
        } else {
            format!("{key} is {after} already")
        }
    }
}

impl TakenBack {
    /// In a line.
    pub fn text(&self, config_map: &str) -> String {
        let key = &self.key;
        let by = self.by.as_deref().unwrap_or("another writer");
        let found = plain(self.found.as_deref().unwrap_or("not set"));
        format!(
            "epguard: {by} has taken the change back: {key} of ConfigMap {config_map} is {found} again; \
             see \"Argo CD and Flux\" in docs/operate.md"
        )
    }
}
