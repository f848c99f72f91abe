//! The nodes that follow a change of the mode policy, and the others with the cause.

use super::agents::MissingNode;
use super::answers::{group_by_value, name_nodes, short_cause};
use super::names::compare;
use epguard_client::shared::status::{ModeSource, Status};
use epguard_common::Mode;
use serde::{Serialize, Serializer};
use std::time::Duration;

/// The nodes that follow, and the others.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Following {
    #[serde(rename = "following")]
    followers: usize,
    /// When the last of them was seen to follow, after the `ConfigMap` was written.
    #[serde(rename = "afterSeconds", serialize_with = "in_seconds")]
    took: Duration,
    #[serde(rename = "notFollowing")]
    others: Vec<MissingNode>,
    /// Nodes that may have another mode than the mode policy's for all nodes: canaries, and those
    /// that do not follow.
    #[serde(skip)]
    other_modes: Vec<NodeMode>,
}

/// The mode of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeMode {
    /// Name of the node.
    pub node: String,
    /// The mode.
    pub mode: Mode,
    /// The source of the mode.
    pub set_by: ModeSource,
}

/// How the wait for a node ended.
pub struct Ended {
    /// Its last status; none if it showed none.
    pub status: Option<Status>,
    /// Why it does not follow; none if it does.
    pub lack: Option<String>,
}

impl Following {
    /// Of nodes that cannot follow, before the wait for all others.
    pub fn of_others(others: Vec<MissingNode>) -> Self {
        Self {
            others,
            ..Self::default()
        }
    }

    /// Adds a node, and when the wait for it ended.
    pub fn add(&mut self, node: &str, ended: Ended, after: Duration) {
        let is_follower = ended.lack.is_none();
        if let Some(why) = ended.lack {
            let other = MissingNode::without_answer(node.to_owned(), why);
            self.others.push(other);
        } else {
            self.followers += 1;
            self.took = after;
        }
        // A mode that this version does not know cannot be compared.
        if let Some(status) = ended.status
            && let Some(mode) = status.mode
            && !(is_follower && status.mode_source == ModeSource::ModePolicy)
        {
            self.other_modes.push(NodeMode {
                node: node.to_owned(),
                mode,
                set_by: status.mode_source,
            });
        }
    }

    /// Sorts the nodes by name.
    pub fn sort(&mut self) {
        self.others.sort_by(|a, b| compare(&a.node, &b.node));
        self.other_modes.sort_by(|a, b| compare(&a.node, &b.node));
    }

    /// True if all nodes follow.
    pub const fn is_complete(&self) -> bool {
        self.others.is_empty()
    }

    /// The nodes that have a higher mode than this one of all nodes.
    pub fn above(&self, mode: Mode) -> Vec<NodeMode> {
        let mut above = self.other_modes.clone();
        above.retain(|node| node.mode.lower(mode) != node.mode);
        above
    }

    /// `498 of 500 nodes follow (0.4 s)`, and the others by cause.
    pub fn text(&self) -> String {
        let all = self.followers + self.others.len();
        let nodes = if all == 1 {
            "node follows"
        } else {
            "nodes follow"
        };
        let took = self.took.as_secs_f64();
        let mut lines = vec![format!("{} of {all} {nodes} ({took:.1} s)", self.followers)];
        let causes = self
            .others
            .iter()
            .map(|other| (short_cause(&other.why), &*other.node));
        for (cause, nodes) in group_by_value(causes) {
            let verb = if nodes.len() == 1 { "does" } else { "do" };
            lines.push(format!("{} {verb} not follow: {cause}", name_nodes(&nodes)));
        }
        lines.join("\n")
    }
}

fn in_seconds<S: Serializer>(took: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nodes_that_do_not_follow_are_in_the_order_of_people() {
        let mut following = Following::default();
        for node in ["worker-10", "worker-2"] {
            let ended = Ended {
                status: None,
                lack: Some("no answer in time".into()),
            };
            following.add(node, ended, Duration::ZERO);
        }
        following.sort();
        let document = json!(following);
        assert_eq!(document["notFollowing"][0]["node"], "worker-2");
    }
}
